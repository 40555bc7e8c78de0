#include "svg.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tlx/support/text.hpp"

namespace tlxc {

using tlx::cat;

namespace {

std::string escaped(const std::string& s) {
  std::string out;
  for (char c : s) {
    if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '&') out += "&amp;";
    else if (c == '"') out += "&quot;";
    else out += c;
  }
  return out;
}

std::string n(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", v);
  return text;
}

}  // namespace

void svg::reach(double x, double y) {
  width_ = std::max(width_, x);
  height_ = std::max(height_, y);
}

void svg::box(double x, double y, double w, double h, const std::string& fill, const std::string& stroke, const std::string& title) {
  reach(x + w, y + h);
  body_ += cat("<rect x=\"", n(x), "\" y=\"", n(y), "\" width=\"", n(w), "\" height=\"", n(h), "\" fill=\"", fill, "\" stroke=\"", stroke, "\" stroke-width=\"0.5\"");
  body_ += title.empty() ? "/>\n" : cat("><title>", escaped(title), "</title></rect>\n");
}

void svg::line(double x1, double y1, double x2, double y2, const std::string& c, bool arrow) {
  reach(std::max(x1, x2), std::max(y1, y2));
  body_ += cat("<line x1=\"", n(x1), "\" y1=\"", n(y1), "\" x2=\"", n(x2), "\" y2=\"", n(y2), "\" stroke=\"", c, "\" stroke-width=\"1.2\"/>\n");
  const double length = std::hypot(x2 - x1, y2 - y1);
  if (!arrow || length == 0) return;
  const double ux = (x2 - x1) / length, uy = (y2 - y1) / length;
  body_ += cat("<polygon points=\"", n(x2), ",", n(y2), " ", n(x2 - 8 * ux - 4 * uy), ",", n(y2 - 8 * uy + 4 * ux), " ", n(x2 - 8 * ux + 4 * uy), ",", n(y2 - 8 * uy - 4 * ux), "\" fill=\"", c, "\"/>\n");
}

void svg::text(double x, double y, const std::string& what, double size, const std::string& anchor, const std::string& c) {
  const double wide = static_cast<double>(what.size()) * size * 0.6;
  reach(anchor == "start" ? x + wide : anchor == "middle" ? x + wide / 2 : x, y + size * 0.3);
  body_ += cat("<text x=\"", n(x), "\" y=\"", n(y), "\" font-size=\"", n(size), "\" text-anchor=\"", anchor, "\" fill=\"", c, "\">", escaped(what), "</text>\n");
}

std::string svg::done() const {
  const std::string w = n(width_ + 2 * margin_), h = n(height_ + 2 * margin_), m = n(-margin_);
  return cat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", w, "\" height=\"", h, "\" viewBox=\"", m, " ", m, " ", w, " ", h, "\" font-family=\"DejaVu Sans, Arial, sans-serif\">\n<rect x=\"", m, "\" y=\"", m,
             "\" width=\"", w, "\" height=\"", h, "\" fill=\"#ffffff\"/>\n", body_, "</svg>\n");
}

void svg::write(const std::string& path) const { tlx::write_file(path, done()); }

std::string colour(double hue, double saturation, double lightness) {
  const double chroma = (1 - std::abs(2 * lightness - 1)) * saturation;
  const auto channel = [&](double offset) {
    const double k = std::fmod(offset + hue / 30, 12);
    return lightness - chroma / 2 * std::max(-1.0, std::min({k - 3, 9 - k, 1.0}));
  };
  char text[8];
  std::snprintf(text, sizeof text, "#%02x%02x%02x", static_cast<unsigned>(std::lround(255 * channel(0))) & 255U, static_cast<unsigned>(std::lround(255 * channel(8))) & 255U,
                static_cast<unsigned>(std::lround(255 * channel(4))) & 255U);
  return text;
}

}  // namespace tlxc
