#include "report/page/page_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "base/strings/printable.h"
#include "base/strings/utf8.h"

namespace hone::report {

using base::Json;

namespace {

constexpr std::size_t kBucketsOfPage = 50'000;  // of all series together: 25 bytes each
constexpr std::size_t kFewestBuckets = 64;
constexpr std::size_t kMostSeries =
    400;  // of a run: what names of its own would make beyond that is no chart
constexpr std::size_t kOptionBytes = 600;  // of an option's value
constexpr std::size_t kNameBytes = 200;

std::string safe_text(std::string_view text, std::size_t most = 4'000) {
  return base::printable(base::cut_text(text, most));
}

std::string json_text(std::string_view text, std::size_t most = kNameBytes) {
  return base::dump_json(Json(safe_text(text, most)));
}

using Buckets = std::vector<Series::Bucket>;

template <typename Number>
void append_numbers(std::string& out, const char* name, const Buckets& buckets, const Number& number) {
  fmt::format_to(std::back_inserter(out), ",\"{}\":[", name);
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    if (i > 0) out += ',';
    if (buckets[i].values == 0) {
      out += "null";
    } else {
      fmt::format_to(std::back_inserter(out), "{:.6g}", number(buckets[i]));
    }
  }
  out += ']';
}

void append_point(std::string& out, const char* name, const std::optional<Series::Point>& point) {
  if (point) fmt::format_to(std::back_inserter(out), ",\"{}\":[{},{:.6g}]", name, point->step, point->value);
}

// The series of one run; those that were logged at the same steps share them.
class SeriesText {
 public:
  explicit SeriesText(std::size_t most) : most_(most) {}

  void add(const std::string& name, const Series& series) {
    if (series.count() == 0) return;
    const Buckets buckets = series.buckets(most_);
    const bool reduced =
        std::ranges::any_of(buckets, [](const Series::Bucket& one) { return one.values > 1; });
    if (!series_.empty()) series_ += ',';
    fmt::format_to(std::back_inserter(series_), "{{\"name\":{},\"x\":{},\"count\":{}", json_text(name),
                   steps_of(buckets), series.count());
    append_numbers(series_, "mean", buckets, [](const Series::Bucket& one) { return one.mean(); });
    if (reduced) {
      append_numbers(series_, "low", buckets, [](const Series::Bucket& one) { return one.low; });
      append_numbers(series_, "high", buckets, [](const Series::Bucket& one) { return one.high; });
    }
    append_point(series_, "first", series.first());
    append_point(series_, "last", series.last());
    append_point(series_, "lowest", series.lowest());
    append_point(series_, "highest", series.highest());
    series_ += '}';
  }

  std::string text() const { return "\"x\":[" + steps_ + "],\"series\":[" + series_ + "]"; }

 private:
  std::size_t steps_of(const Buckets& buckets) {
    std::vector<std::int64_t> steps;
    steps.reserve(buckets.size());
    for (const Series::Bucket& one : buckets) steps.push_back(one.step);
    const auto [found, is_new] = known_.try_emplace(std::move(steps), known_.size());
    if (is_new) {
      steps_ += steps_.empty() ? "[" : ",[";
      for (std::size_t i = 0; i < found->first.size(); ++i)
        fmt::format_to(std::back_inserter(steps_), "{}{}", i > 0 ? "," : "", found->first[i]);
      steps_ += ']';
    }
    return found->second;
  }

  std::size_t most_;
  std::map<std::vector<std::int64_t>, std::size_t> known_;
  std::string steps_, series_;
};

std::string series_text(const RunMetrics& metrics, std::size_t buckets) {
  SeriesText out(buckets);
  for (std::size_t i = 0; i < std::min(metrics.series.size(), kMostSeries); ++i)
    out.add(metrics.series[i].first, metrics.series[i].second);
  return out.text();
}

Json printable_strings(const Json& object) {
  Json out = Json::object();
  for (const auto& [name, value] : object.items()) {
    if (value.is_string()) out[safe_text(name)] = safe_text(value.get<std::string>());
    if (value.is_number() || value.is_boolean()) out[safe_text(name)] = value;
  }
  return out;
}

Json numbers_of_run(const RunMetrics& metrics) {
  Json out = {{"step", metrics.last_step},
              {"epoch", metrics.last_epoch},
              {"lines", metrics.lines},
              {"skipped", metrics.skipped},
              {"step_seconds", metrics.step_seconds},
              {"evaluation_seconds", metrics.evaluation_seconds},
              {"save_seconds", metrics.save_seconds}};
  if (metrics.token_seconds > 0) out["tokens_per_second"] = metrics.tokens / metrics.token_seconds;
  if (metrics.end.is_object()) out["end"] = printable_strings(metrics.end);
  return out;
}

Json plan_json(const std::vector<PagePlanRow>& plan) {
  Json out = Json::array();
  for (const PagePlanRow& row : plan) {
    Json one = {{"name", safe_text(row.name)},
                {"group", safe_text(row.group)},
                {"value", safe_text(row.value, kOptionBytes)}};
    if (row.differs) one["standard"] = safe_text(row.standard, kOptionBytes);
    out.push_back(std::move(one));
  }
  return out;
}

std::string run_text(const PageRun& run, std::size_t buckets) {
  Json rest = {{"name", safe_text(run.name, kNameBytes)},
               {"method", run.method},
               {"state", end_name(run.facts.end)},
               {"total_steps", run.facts.total_steps},
               {"started", run.facts.started},
               {"resumed_at", run.facts.resumed_at},
               {"numbers", numbers_of_run(*run.metrics)},
               {"start", Json::array()},
               {"example", Json::array()},
               {"verdicts", Json::array()},
               {"notes", Json::array()},
               {"plan", plan_json(run.plan)},
               {"completion_files", run.completions.files},
               {"completions_skipped", run.completions.skipped},
               {"completions", run.completions.steps}};
  if (!run.samples.is_null()) rest["samples"] = run.samples;
  for (const auto& [heading, text] : run.facts.start)
    rest["start"].push_back({safe_text(heading), safe_text(text)});
  for (const auto& piece : run.facts.example)
    rest["example"].push_back({safe_text(piece.text, 16'000), piece.supervised});
  for (const auto& [step, verdict] : run.facts.verdicts) {
    Json one = printable_strings(verdict);
    one["step"] = step;
    rest["verdicts"].push_back(std::move(one));
  }
  for (const std::string& note : run.notes) rest["notes"].push_back(safe_text(note));
  const std::string text = base::dump_json(rest);
  return text.substr(0, text.size() - 1) + "," + series_text(*run.metrics, buckets) + "}";
}

}  // namespace

std::string page_data(const std::vector<PageRun>& runs, const PageTimes& times) {
  std::size_t series = 1;
  for (const PageRun& run : runs) series += std::min(run.metrics->series.size(), kMostSeries);
  const std::size_t buckets = std::clamp(kBucketsOfPage / series, kFewestBuckets, Series::kMostBuckets);
  std::string out = fmt::format("{{\"format\":\"hone-page-1\",\"written\":{},\"refresh\":{},\"runs\":[",
                                times.written, times.refresh_seconds);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (i > 0) out += ',';
    out += run_text(runs[i], buckets);
  }
  return out + "]}";
}

}  // namespace hone::report
