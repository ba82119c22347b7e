#include "report/terminal/range_plot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace hone::report {
namespace range_plot_test {

RangePlot valley() {
  RangePlot plot{.proposal = 1e-4, .title = "a < b"};
  for (int i = 0; i < 30; ++i) {
    plot.rates.push_back(1e-6 * std::pow(10, i / 6.0));
    plot.values.push_back(i < 20 ? -0.02 * i : -0.4 + 0.5 * (i - 19));
  }
  return plot;
}

TEST(RangePlot, TextHasItsSizeTheCurveAndTheMark) {
  const std::string text = plot_text(valley(), 72, 12);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 14);
  EXPECT_NE(text.find('*'), std::string::npos);
  EXPECT_NE(text.find("1e-06"), std::string::npos);
  EXPECT_NE(text.find("-0.380"), std::string::npos);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    EXPECT_LE(end - at, 72U);
    at = end + 1;
  }
}

TEST(RangePlot, SvgIsClosedAndEscaped) {
  const std::string svg = plot_svg(valley());
  EXPECT_TRUE(svg.starts_with("<svg"));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_NE(svg.find("a &lt; b"), std::string::npos);
  EXPECT_NE(svg.find("stroke-dasharray"), std::string::npos);
}

TEST(RangePlot, OnePointOrNoneIsNoTrouble) {
  EXPECT_EQ(plot_text({}), "");
  EXPECT_TRUE(plot_svg({}).ends_with("</svg>\n"));
  EXPECT_NE(plot_text({.rates = {1e-3}, .values = {0}}), "");
  EXPECT_EQ(plot_svg({.rates = {1e-3}, .values = {0}}).find("nan"), std::string::npos);
}

}  // namespace range_plot_test
}  // namespace hone::report
