#include "report/page/page_facts.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/enum_names.h"
#include "base/error.h"
#include "base/strings/lines.h"
#include "base/strings/printable.h"
#include "base/strings/utf8.h"
#include "report/page/read_metrics.h"
#include "report/terminal/start_page.h"
#include "report/terminal/terminal.h"
#include "train/saves/run_folder.h"

namespace hone::report {

using base::Json;

namespace {

constexpr std::string_view kFormat = "hone-page-1";
constexpr std::size_t kMostExample = 6'000;  // of the shown example
constexpr std::size_t kMostVerdicts = 500;
constexpr std::size_t kHeading = 10;  // columns of the start page's first column
constexpr std::array<std::string_view, 5> kEnds = {"running", "finished", "stopped", "failed", "killed"};

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(' ') - begin + 1));
}

// The lines of the start page by their headings; the example is shown apart.
std::vector<std::pair<std::string, std::string>> headed_lines(train::StartFacts facts) {
  facts.example.clear();
  const std::string page = start_page(facts, Terminal{});
  std::vector<std::pair<std::string, std::string>> out;
  for (const std::string_view line : base::line_views(page)) {
    const std::string heading = trimmed(line.substr(0, kHeading));
    const std::string text = line.size() > kHeading ? base::printable(line.substr(kHeading)) : "";
    if (heading.empty() && !out.empty()) {
      out.back().second += "\n" + text;
    } else {
      out.emplace_back(heading, text);
    }
  }
  return out;
}

std::vector<train::ColoredPiece> cut_example(const std::vector<train::ColoredPiece>& example) {
  std::vector<train::ColoredPiece> out;
  std::size_t left = kMostExample;
  for (const train::ColoredPiece& piece : example) {
    if (left < 4) break;
    const std::string text = base::printable(base::cut_text(piece.text, left));
    left -= std::min(left, text.size());
    if (!out.empty() && out.back().supervised == piece.supervised) {
      out.back().text += text;
    } else {
      out.push_back({.text = text, .supervised = piece.supervised});
    }
  }
  return out;
}

std::int64_t whole_number(const Json& json, const char* name) {
  return json.contains(name) && json[name].is_number_integer() ? json[name].get<std::int64_t>() : 0;
}

std::string string_of(const Json& json, const char* name) {
  return json.is_object() && json.contains(name) && json[name].is_string() ? json[name].get<std::string>()
                                                                           : "";
}

const Json& list_of(const Json& json, const char* name) {
  static const Json none = Json::array();
  return json.contains(name) && json[name].is_array() ? json[name] : none;
}

}  // namespace

std::string_view end_name(RunEnd end) {
  return base::enum_name(kEnds, end);
}

void PageFacts::continue_from(const PageFacts& earlier, std::int64_t first_step) {
  if (first_step == 0) return;
  for (const std::int64_t step : earlier.resumed_at) {
    if (step < first_step) resumed_at.push_back(step);
  }
  resumed_at.push_back(first_step);
  std::vector<std::pair<std::int64_t, Json>> all;
  for (const auto& one : earlier.verdicts) {
    if (one.first > 0 && one.first <= first_step) all.push_back(one);  // the examination is made again
  }
  all.insert(all.end(), verdicts.begin(), verdicts.end());
  verdicts = std::move(all);
}

PageFacts facts_of_start(const train::StartFacts& start, std::int64_t now) {
  return {.started = now,
          .total_steps = start.total_steps,
          .start = headed_lines(start),
          .example = cut_example(start.example)};
}

Json facts_json(const PageFacts& facts) {
  Json out = {{"format", kFormat},
              {"end", end_name(facts.end)},
              {"started", facts.started},
              {"resumed_at", facts.resumed_at},
              {"total_steps", facts.total_steps},
              {"start", Json::array()},
              {"example", Json::array()},
              {"verdicts", Json::array()}};
  for (const auto& [heading, text] : facts.start) out["start"].push_back({heading, text});
  for (const auto& piece : facts.example) out["example"].push_back({piece.text, piece.supervised});
  const std::size_t first = facts.verdicts.size() > kMostVerdicts ? facts.verdicts.size() - kMostVerdicts : 0;
  for (std::size_t i = first; i < facts.verdicts.size(); ++i) {
    Json one = facts.verdicts[i].second;
    one["step"] = facts.verdicts[i].first;
    out["verdicts"].push_back(std::move(one));
  }
  return out;
}

PageFacts facts_of_json(const Json& json) {
  PageFacts out;
  if (string_of(json, "format") != kFormat) return out;
  for (std::size_t i = 0; i < kEnds.size(); ++i) {
    if (string_of(json, "end") == kEnds[i]) out.end = static_cast<RunEnd>(i);
  }
  out.started = whole_number(json, "started");
  out.total_steps = whole_number(json, "total_steps");
  for (const Json& step : list_of(json, "resumed_at")) {
    if (step.is_number_integer()) out.resumed_at.push_back(step.get<std::int64_t>());
  }
  const auto is_pair = [](const Json& one) {
    return one.is_array() && one.size() == 2 && one[0].is_string();
  };
  for (const Json& line : list_of(json, "start")) {
    if (is_pair(line) && line[1].is_string())
      out.start.emplace_back(line[0].get<std::string>(), line[1].get<std::string>());
  }
  for (const Json& piece : list_of(json, "example")) {
    if (is_pair(piece) && piece[1].is_boolean())
      out.example.push_back({piece[0].get<std::string>(), piece[1].get<bool>()});
  }
  for (const Json& verdict : list_of(json, "verdicts")) {
    if (verdict.is_object()) out.verdicts.emplace_back(whole_number(verdict, "step"), verdict);
  }
  return out;
}

PageFacts read_page_facts(const base::fs::path& output_dir) {
  const base::fs::path file = output_dir / train::kPageFactsFile;
  std::error_code none;
  if (!base::fs::is_regular_file(file, none)) return {};
  try {
    return facts_of_json(read_record(base::read_text(file)));
  } catch (const base::UserError&) {  // it cannot be read
    return {};
  }
}

void write_page_facts(const base::fs::path& output_dir, const PageFacts& facts) {
  base::write_file_atomic(output_dir / train::kPageFactsFile, base::dump_json(facts_json(facts)) + "\n");
}

}  // namespace hone::report
