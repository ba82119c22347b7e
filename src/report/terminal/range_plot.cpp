#include "report/terminal/range_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace hone::report {

namespace {

// Where a point lies, from 0 to 1 on both axes; what rises far above zero is cut, so that the valley can be
// seen.
struct Frame {
  double left, right, bottom, top;

  explicit Frame(const RangePlot& plot)
      : left(std::log10(plot.rates.front())),
        right(std::log10(plot.rates.back())),
        bottom(*std::min_element(plot.values.begin(), plot.values.end())),
        top(*std::max_element(plot.values.begin(), plot.values.end())) {
    top = std::min(top, std::max(-bottom, 1e-9));
    if (top - bottom < 1e-9) top = bottom + 1e-9;
    if (right <= left) right = left + 1;
  }
  double x(double rate) const { return std::clamp((std::log10(rate) - left) / (right - left), 0.0, 1.0); }
  double y(double value) const { return std::clamp((value - bottom) / (top - bottom), 0.0, 1.0); }
};

int cell(double share, int count) {
  return std::min(count - 1, static_cast<int>(share * count));
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

}  // namespace

std::string plot_text(const RangePlot& plot, int columns, int rows) {
  if (plot.rates.empty() || plot.rates.size() != plot.values.size()) return "";
  const Frame frame(plot);
  const int width = std::max(10, columns - 10);
  std::vector<std::string> lines(static_cast<std::size_t>(rows),
                                 std::string(static_cast<std::size_t>(width), ' '));
  const auto at = [&](int row, int column) -> char& {
    return lines[static_cast<std::size_t>(rows - 1 - row)][static_cast<std::size_t>(column)];
  };
  if (plot.proposal > 0) {
    for (int row = 0; row < rows; ++row) at(row, cell(frame.x(plot.proposal), width)) = '|';
  }
  for (std::size_t i = 0; i < plot.rates.size(); ++i) {
    at(cell(frame.y(plot.values[i]), rows), cell(frame.x(plot.rates[i]), width)) = '*';
  }
  std::string out;
  for (int row = 0; row < rows; ++row) {
    const double value = frame.top - (frame.top - frame.bottom) * row / (rows - 1);
    out += fmt::format("{:>8} |{}\n", row == 0 || row == rows - 1 ? fmt::format("{:.3f}", value) : "",
                       lines[static_cast<std::size_t>(row)]);
  }
  out += fmt::format("{:>8} +{}\n", "", std::string(static_cast<std::size_t>(width), '-'));
  const std::string first = fmt::format("{:.0e}", plot.rates.front()),
                    last = fmt::format("{:.0e}", plot.rates.back());
  return out + fmt::format("{:>10}{}{:>{}}\n", "", first, last,
                           std::max<int>(1, width - static_cast<int>(first.size())));
}

std::string plot_svg(const RangePlot& plot) {
  constexpr double kLeft = 70, kTop = 40, kWidth = 620, kHeight = 260;
  std::string out =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"360\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"720\" height=\"360\" fill=\"white\"/>\n";
  out += fmt::format("<text x=\"{}\" y=\"22\" font-size=\"14\">{}</text>\n", kLeft, escaped(plot.title));
  if (plot.rates.empty() || plot.rates.size() != plot.values.size()) return out + "</svg>\n";
  const Frame frame(plot);
  const auto x = [&](double rate) { return kLeft + kWidth * frame.x(rate); };
  const auto y = [&](double value) { return kTop + kHeight * (1 - frame.y(value)); };
  out += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#999\"/>\n",
                     kLeft, kTop, kWidth, kHeight);
  for (double power = std::ceil(frame.left - 1e-9); power <= frame.right + 1e-9; power += 1) {
    const double at = x(std::pow(10, power));
    out += fmt::format("<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\" stroke=\"#ddd\"/>\n", at,
                       kTop, kTop + kHeight);
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">1e{:.0f}</text>\n", at,
                       kTop + kHeight + 18, power);
  }
  for (const double value : {frame.bottom, 0.0, frame.top}) {
    if (value < frame.bottom || value > frame.top) continue;
    out += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.3f}</text>\n", kLeft - 6,
                       y(value) + 4, value);
  }
  if (plot.proposal > 0) {
    out += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\" stroke=\"#c33\" stroke-dasharray=\"4 "
        "3\"/>\n",
        x(plot.proposal), kTop, kTop + kHeight);
  }
  out += "<polyline fill=\"none\" stroke=\"#246\" stroke-width=\"2\" points=\"";
  for (std::size_t i = 0; i < plot.rates.size(); ++i)
    out += fmt::format("{:.1f},{:.1f} ", x(plot.rates[i]), y(plot.values[i]));
  out += fmt::format("\"/>\n<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">learning rate</text>\n",
                     kLeft + kWidth / 2, kTop + kHeight + 40);
  return out + "</svg>\n";
}

}  // namespace hone::report
