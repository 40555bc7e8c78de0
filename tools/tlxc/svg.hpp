// A small SVG writer: rectangles, lines and text.
#pragma once
#include <string>

namespace tlxc {

class svg {
 public:
  /// Grows with what is drawn; `margin` is left free around it.
  explicit svg(double margin = 16) : margin_(margin) {}

  void box(double x, double y, double w, double h, const std::string& fill, const std::string& stroke = "#555", const std::string& title = "");
  void line(double x1, double y1, double x2, double y2, const std::string& colour = "#333", bool arrow = false);
  /// `anchor`: start, middle or end; `y` is the baseline.
  void text(double x, double y, const std::string& what, double size = 12, const std::string& anchor = "start", const std::string& colour = "#111");

  std::string done() const;
  void write(const std::string& path) const;

 private:
  void reach(double x, double y);
  double margin_, width_ = 0, height_ = 0;
  std::string body_;
};

/// "#rrggbb" of hue in degrees, saturation and lightness in 0..1.
std::string colour(double hue, double saturation, double lightness);

}  // namespace tlxc
