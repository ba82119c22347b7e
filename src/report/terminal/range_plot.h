// The curve of a learning-rate range test: as lines of text for a terminal, and as an SVG file.
#pragma once

#include <string>
#include <vector>

namespace hone::report {

struct RangePlot {
  std::vector<double> rates;   // rising, log scale
  std::vector<double> values;  // as many: the change of the loss
  double proposal = 0;         // a mark; 0: none
  std::string title;
};

// `columns` wide and `rows` high, with axes; "" without points.
std::string plot_text(const RangePlot& plot, int columns = 72, int rows = 12);

// A picture of 720 x 360.
std::string plot_svg(const RangePlot& plot);

}  // namespace hone::report
