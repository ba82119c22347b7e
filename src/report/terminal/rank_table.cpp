#include "report/terminal/rank_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/files/file.h"
#include "base/strings/plural.h"
#include "report/terminal/terminal.h"

namespace hone::report {

namespace {

constexpr std::size_t kColumns = 100;

std::string bytes_text(double bytes) {
  return human_bytes(static_cast<std::int64_t>(bytes));
}

std::string fits_text(const RankRow& row) {
  if (row.memory.limit == 0) return "?";
  return row.memory.fits() ? "yes" : "no";
}

std::string table(const RankPlans& plans) {
  std::string out = fmt::format("{:>5} {:>5} {:>9} {:>9} {:>4} {:>8} {:>8} {:>9} {:>9} {:>8} {:>8} {:>5}\n",
                                "hosts", "ranks", "a rank", "a host", "fits", "sent", "compute", "imbalance",
                                "optimizer", "network", "step", "eff.");
  for (const RankRow& row : plans.rows) {
    const train::RankForecast& time = row.time;
    out += fmt::format("{:>5} {:>5} {:>9} {:>9} {:>4} {:>8} {:>8} {:>9} {:>9} {:>8} {:>8} {:>5.2f}\n",
                       time.setting.hosts, time.setting.ranks(), base::gigabytes(row.memory.plan.total),
                       base::gigabytes(row.memory.host), fits_text(row), bytes_text(time.bytes_of_rank),
                       seconds_text(time.compute), seconds_text(time.imbalance), seconds_text(time.optimizer),
                       seconds_text(time.communication), seconds_text(time.seconds()), time.efficiency);
  }
  return out;
}

// A line with a heading, wrapped below its text.
std::string line(std::string_view name, const std::string& text) {
  constexpr std::size_t kNameWidth = 10;
  std::string out = fmt::format("{:<{}}", name, kNameWidth);
  std::size_t column = kNameWidth;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::size_t length = end - begin;
    if (column > kNameWidth && column + 1 + length > kColumns) {
      out += "\n" + std::string(kNameWidth, ' ');
      column = kNameWidth;
    } else if (column > kNameWidth) {
      out += ' ';
      ++column;
    }
    out.append(text, begin, length);
    column += length;
    begin = end + 1;
  }
  return out + "\n";
}

std::string setting_text(const train::RankSetting& setting) {
  return base::counted(setting.ranks(), "rank") +
         (setting.hosts > 1 ? " on " + base::counted(setting.hosts, "host") : "");
}

// Of the first row, and of the last where there are several.
std::string segments(const RankPlans& plans) {
  std::vector<const RankRow*> shown = {&plans.rows.front()};
  if (plans.rows.size() > 1) shown.push_back(&plans.rows.back());
  std::string out = "memory    of a rank\n";
  std::vector<std::string> names;
  for (const RankRow* row : shown) {
    for (const train::MemorySegment& one : row->memory.plan.segments) {
      if (std::find(names.begin(), names.end(), one.name) == names.end()) names.push_back(one.name);
    }
  }
  const auto cell = [](const RankRow& row, const std::string& name) {
    for (const train::MemorySegment& one : row.memory.plan.segments) {
      if (one.name == name) return bytes_text(static_cast<double>(one.bytes));
    }
    return std::string("-");
  };
  out += fmt::format("  {:<46}", "");
  for (const RankRow* row : shown) out += fmt::format("{:>24}", setting_text(row->time.setting));
  out += "\n";
  for (const std::string& name : names) {
    out += fmt::format("  {:<46}", name);
    for (const RankRow* row : shown) out += fmt::format("{:>24}", cell(*row, name));
    out += "\n";
  }
  out += fmt::format("  {:<46}", "together");
  for (const RankRow* row : shown) out += fmt::format("{:>24}", base::gigabytes(row->memory.plan.total));
  out += fmt::format("\n  {:<46}", "recompute");
  for (const RankRow* row : shown) out += fmt::format("{:>24}", row->recompute);
  return out + "\n";
}

std::string change_text(const RankRow& row) {
  if (!row.change)
    return "no setting of this model fits: fewer ranks on a host, more memory, or a smaller model";
  const std::string options = row.change->options.empty()
                                  ? std::string("as it is")
                                  : fmt::format("{}", fmt::join(row.change->options, ", "));
  return options + fmt::format("; then {} a host", base::gigabytes(row.change->memory.host));
}

std::string fit_lines(const RankPlans& plans) {
  if (plans.memory == 0) return line("fit", "the memory of a host is not known: --memory says it");
  const std::string limit = base::gigabytes(plans.memory) + (plans.memory_is_set ? "" : " (free here)");
  const auto first = std::find_if(plans.rows.begin(), plans.rows.end(),
                                  [](const RankRow& row) { return !row.memory.fits(); });
  if (first == plans.rows.end()) return line("fit", "all of these fit " + limit + " a host");
  std::string out = line("fit", setting_text(first->time.setting) + ": the first that does not fit " + limit +
                                    " of a host; it needs " + base::gigabytes(first->memory.host));
  for (auto row = first; row != plans.rows.end(); ++row) {
    if (!row->memory.fits())
      out += line("cheapest", setting_text(row->time.setting) + ": " + change_text(*row));
  }
  return out;
}

std::string remarks(const RankPlans& plans) {
  std::string out;
  const auto find = [&](auto&& has) { return std::find_if(plans.rows.begin(), plans.rows.end(), has); };
  const auto crowded = find([&](const RankRow& row) { return row.time.setting.per_host > plans.cores; });
  if (crowded != plans.rows.end()) {
    out += line("note", fmt::format("{} of a host are more than its {}: they take turns",
                                    base::counted(crowded->time.setting.per_host, "rank"),
                                    base::counted(plans.cores, "processor")));
  }
  const auto idle = find([](const RankRow& row) { return row.idle; });
  if (idle != plans.rows.end()) {
    out += line("note",
                fmt::format("a step of {} would have {} micro-batches, and a pass over the data has fewer",
                            setting_text(idle->time.setting), idle->micro_batches));
  }
  const auto other = find([](const RankRow& row) { return !row.bits_of_one; });
  if (other != plans.rows.end()) {
    out += line("note", setting_text(other->time.setting) +
                            " add up in another order than one: the bits differ, as docs/ranks.md says");
  }
  for (const std::string& note : plans.notes) out += line("note", note);
  return out;
}

base::Json segments_json(const train::MemoryPlan& plan) {
  base::Json out = base::Json::object();
  for (const train::MemorySegment& one : plan.segments) out[one.name] = one.bytes;
  return out;
}

}  // namespace

std::string seconds_text(double seconds) {
  if (seconds == 0) return "0";
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  return seconds < 1000 ? fmt::format("{:.3g} s", seconds) : fmt::format("{:.0f} s", seconds);
}

std::string rank_text(const RankPlans& plans) {
  const train::RankSpeed& speed = plans.speed;
  const auto here = static_cast<double>(plans.cores_here);
  std::string out =
      line("compute", fmt::format("{} a token by one thread, {} by {}: measured here; {} of a host",
                                  seconds_text(speed.token(1)), seconds_text(speed.token(here)),
                                  plans.cores_here, base::counted(plans.cores, "processor")));
  out += line(
      "links",
      fmt::format("within a host {} + {} a message, {}/s a rank: measured here by Gloo on loopback",
                  seconds_text(speed.latency), seconds_text(speed.message), bytes_text(speed.bandwidth)));
  if (plans.rows.back().time.setting.hosts > 1) {
    out += line("", fmt::format("between hosts {}, {}/s a host: --latency and --bandwidth, not measured",
                                seconds_text(speed.network_latency), bytes_text(speed.network_bandwidth)));
  }
  return out + "\n" + table(plans) + "\n" + segments(plans) + "\n" + fit_lines(plans) + remarks(plans);
}

base::Json rank_json(const RankPlans& plans) {
  base::Json rows = base::Json::array();
  for (const RankRow& row : plans.rows) {
    const train::RankForecast& time = row.time;
    base::Json one = {{"hosts", time.setting.hosts},
                      {"ranks", time.setting.ranks()},
                      {"threads", time.setting.threads()},
                      {"gradient_accumulation_steps", row.accumulation},
                      {"tokens_of_step", time.tokens},
                      {"bytes_sent_by_rank", time.bytes_of_rank},
                      {"network_bytes_of_host", time.network_of_host},
                      {"compute_seconds", time.compute},
                      {"imbalance_seconds", time.imbalance},
                      {"optimizer_seconds", time.optimizer},
                      {"communication_seconds", time.communication},
                      {"step_seconds", time.seconds()},
                      {"tokens_per_second", time.tokens_per_second()},
                      {"efficiency", time.efficiency},
                      {"memory_of_rank", row.memory.plan.total},
                      {"memory_of_host", row.memory.host},
                      {"segments", segments_json(row.memory.plan)},
                      {"recompute", row.recompute},
                      {"fits", row.memory.limit == 0 ? base::Json() : base::Json(row.memory.fits())}};
    if (row.change) {
      one["cheapest_that_fits"] = {{"options", row.change->options},
                                   {"memory_of_host", row.change->memory.host}};
    }
    rows.push_back(std::move(one));
  }
  const train::RankSpeed& speed = plans.speed;
  return {{"rows", std::move(rows)},
          {"memory_of_host", plans.memory},
          {"processors_of_host", plans.cores},
          {"trained_parameters", plans.parameters},
          {"speed",
           {{"token_serial_seconds", speed.serial},
            {"token_divided_seconds", speed.divided},
            {"optimizer_seconds", speed.optimizer},
            {"latency", speed.latency},
            {"message", speed.message},
            {"bandwidth", speed.bandwidth},
            {"network_latency", speed.network_latency},
            {"network_bandwidth", speed.network_bandwidth}}},
          {"notes", plans.notes}};
}

}  // namespace hone::report
