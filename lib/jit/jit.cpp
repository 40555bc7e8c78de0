namespace tlx {}
