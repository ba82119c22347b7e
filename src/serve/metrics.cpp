#include <algorithm>
#include <cstdio>

#include "serve/served.h"

namespace hone::serve {

namespace {

std::string number(double value) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.9g", value);
  return buffer;
}

void add_metric(std::string& out, const char* name, const char* type, const std::string& value,
                const std::string& labels = "") {
  out += std::string("# TYPE ") + name + " " + type + "\n" + name + labels + " " + value + "\n";
}

}  // namespace

void Metrics::count(const std::string& api, const std::string& path, int status) {
  const std::lock_guard lock(mutex_);
  ++requests_["{api=\"" + api + "\",path=\"" + path + "\",code=\"" + std::to_string(status) + "\"}"];
}

void Metrics::first_token(double seconds) {
  const std::lock_guard lock(mutex_);
  const auto place = std::lower_bound(kBounds.begin(), kBounds.end(), seconds);
  ++first_[static_cast<std::size_t>(place - kBounds.begin())];
  first_sum_ += seconds;
}

std::string Metrics::text(const SchedulerFacts& facts, std::int64_t connections,
                          const KeptFacts& kept) const {
  std::string out;
  const std::lock_guard lock(mutex_);
  if (!requests_.empty()) out += "# TYPE hone_requests_total counter\n";
  for (const auto& [labels, count] : requests_)
    out += "hone_requests_total" + labels + " " + std::to_string(count) + "\n";
  out += "# TYPE hone_tokens_total counter\n";
  for (const auto& [kind, count] :
       {std::pair{"prompt", facts.read}, {"cached", facts.cached}, {"sampled", facts.sampled}})
    out += std::string("hone_tokens_total{kind=\"") + kind + "\"} " + std::to_string(count) + "\n";
  add_metric(out, "hone_prefix_hit_tokens_total", "counter", std::to_string(facts.cached));
  out += "# TYPE hone_time_to_first_token_seconds histogram\n";
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < first_.size(); ++i) {
    all += first_[i];
    out += "hone_time_to_first_token_seconds_bucket{le=\"" +
           (i < kBounds.size() ? number(kBounds[i]) : "+Inf") + "\"} " + std::to_string(all) + "\n";
  }
  out += "hone_time_to_first_token_seconds_sum " + number(first_sum_) + "\n";
  out += "hone_time_to_first_token_seconds_count " + std::to_string(all) + "\n";
  out += "# TYPE hone_step_seconds summary\n";
  for (const auto& [kind, sum, count] : {std::tuple{"decode", facts.decode_seconds, facts.decode_steps},
                                         {"work", facts.work_seconds, facts.work_steps}}) {
    const std::string labels = std::string("{kind=\"") + kind + "\"} ";
    out += "hone_step_seconds_sum" + labels + number(sum) + "\n";
    out += "hone_step_seconds_count" + labels + std::to_string(count) + "\n";
  }
  out += "# TYPE hone_draft_tokens_total counter\n";
  for (const auto& [kind, count] :
       {std::pair{"guessed", facts.drafts.drafted}, {"accepted", facts.drafts.accepted}})
    out += std::string("hone_draft_tokens_total{kind=\"") + kind + "\"} " + std::to_string(count) + "\n";
  if (ops::step_graphs_wanted()) {
    out += "# TYPE hone_step_graphs_total counter\n";
    for (const auto& [kind, count] :
         {std::pair{"recorded", facts.graphs.recorded}, {"started", facts.graphs.started}})
      out += std::string("hone_step_graphs_total{kind=\"") + kind + "\"} " + std::to_string(count) + "\n";
  }
  add_metric(out, "hone_running", "gauge", std::to_string(facts.engine.decoding));
  add_metric(out, "hone_waiting", "gauge",
             std::to_string(facts.jobs - std::min<std::uint64_t>(facts.jobs, facts.engine.decoding)));
  add_metric(out, "hone_works", "gauge", std::to_string(facts.works));
  add_metric(out, "hone_kv_bytes", "gauge", std::to_string(facts.engine.held));
  add_metric(out, "hone_connections", "gauge", std::to_string(connections));
  add_metric(out, "hone_versions", "gauge", std::to_string(kept.versions));
  add_metric(out, "hone_version_bytes", "gauge", std::to_string(kept.bytes));
  add_metric(out, "hone_version_file_bytes", "gauge", std::to_string(kept.file_bytes));
  return out;
}

}  // namespace hone::serve
