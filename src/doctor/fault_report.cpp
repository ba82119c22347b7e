#include "doctor/fault_report.h"

#include "base/error.h"
#include "doctor/crash_text.h"
#include "doctor/running_file.h"
#include "train/saves/run_folder.h"

namespace hone::doctor {

namespace fs = base::fs;
using base::Json;

namespace {

constexpr const char* kFaultFormat = "hone-fault-1";

Json json_of(const base::Verdict& verdict) {
  return {{"code", verdict.code},   {"what", verdict.what},         {"evidence", verdict.evidence},
          {"cause", verdict.cause}, {"not_this", verdict.not_this}, {"fix", verdict.fix},
          {"cost", verdict.cost}};
}

std::string text_at(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

std::int64_t number_at(const Json& json, const char* name, std::int64_t otherwise) {
  const auto found = json.find(name);
  return found != json.end() && found->is_number_integer() ? found->get<std::int64_t>() : otherwise;
}

void line(std::string& out, const char* label, const std::string& text) {
  if (text.empty()) return;
  std::string padded(label);
  padded.resize(10, ' ');
  out += padded + text + "\n";
}

// The checkpoint from which a run can continue, and the text for it.
std::string go_on(const fs::path& folder, std::int64_t checkpoint, std::int64_t healthy) {
  std::string out;
  if (checkpoint < 0) {
    line(out, "saved", "no checkpoint yet");
    line(out, "continue", "start again with the same command");
    return out;
  }
  if (healthy < 0) {
    line(out, "saved",
         train::checkpoint_path(folder, checkpoint).string() + ", after the fault was suspected");
    line(out, "continue", "start again with changed options: no checkpoint is from before it");
    return out;
  }
  const bool same = healthy == checkpoint;
  line(out, "saved", train::checkpoint_path(folder, checkpoint).string() + (same ? ", the last one" : ""));
  if (!same)
    line(out, "healthy",
         train::checkpoint_path(folder, healthy).string() + ", from before the fault was suspected");
  line(out, "continue",
       "the same command with --resume_from_checkpoint " +
           (same ? std::string("true") : train::checkpoint_path(folder, healthy).string()));
  return out;
}

std::string explain_fault(const Json& json, const fs::path& folder, Evidence evidence) {
  const std::string kind = text_at(json, "kind");
  const bool ended = kind == "end";  // a fault of the last step: the adapter is written
  std::string out;
  line(out,
       ended             ? "ended"
       : kind == "pause" ? "paused"
                         : "stopped",
       "after step " + std::to_string(number_at(json, "step", 0)) + " of " +
           std::to_string(number_at(json, "total_steps", 0)));
  const Json verdicts = json.value("verdicts", Json::array());
  for (const Json& one : verdicts) {
    if (!one.is_object()) continue;
    line(out, "what", text_at(one, "code") + "  " + text_at(one, "what"));
    if (evidence == Evidence::kTold) line(out, "evidence", text_at(one, "evidence"));
    line(out, "cause", text_at(one, "cause"));
    line(out, "not this", text_at(one, "not_this"));
    line(out, "change", text_at(one, "fix"));
  }
  if (ended) return out;
  return out + go_on(folder, number_at(json, "checkpoint", -1), number_at(json, "healthy_checkpoint", -1));
}

// Null for what is no JSON, and for what is nested so deep that copying it would overflow the stack.
Json read_json(const fs::path& file) {
  const std::string text = base::read_text(file);
  try {
    return base::parse_json(text, file.string());
  } catch (const base::UserError&) {
    return {};
  }
}

std::string explain_running(const RunningState& state, const fs::path& folder) {
  const Fate fate = fate_of(state);
  std::string out;
  line(out, "what", describe_fate(state, fate));
  if (fate == Fate::kAlive) return out;
  if (fate == Fate::kMemory) {
    line(out, "code", "MEM-02");
    line(out, "not this", "learning rate, data or rewards");
    line(out, "change",
         "lower per_device_train_batch_size or max_length, or set memory_limit below what was free");
  }
  return out + go_on(folder, state.checkpoint, state.checkpoint);
}

}  // namespace

void write_fault_report(const fs::path& output_dir, const FaultReport& report) {
  Json verdicts = Json::array();
  for (const base::Verdict& one : report.verdicts) verdicts.push_back(json_of(one));
  const Json json = {{"format", kFaultFormat},
                     {"kind", report.kind},
                     {"step", report.step},
                     {"total_steps", report.total_steps},
                     {"checkpoint", report.checkpoint},
                     {"healthy_checkpoint", report.healthy_checkpoint},
                     {"verdicts", verdicts}};
  try {
    base::write_file_atomic(output_dir / train::kFaultFile, base::dump_json(json, 2) + "\n");
  } catch (const base::UserError&) {
  }
}

fs::path crash_report_path(const fs::path& output_dir, std::int64_t pid) {
  return output_dir / (std::string(train::kCrashPrefix) + std::to_string(pid) + ".json");
}

fs::path find_report(const fs::path& folder) {
  if (!fs::is_directory(folder)) return folder;
  std::error_code error;
  fs::path newest;
  const auto consider = [&](const fs::path& path) {
    if (!fs::exists(path, error)) return;
    if (newest.empty() || fs::last_write_time(path, error) > fs::last_write_time(newest, error))
      newest = path;
  };
  const auto running = read_running(folder);
  // What a crash leaves beside its report.
  if (!running || !fs::exists(crash_report_path(folder, running->pid)))
    consider(folder / train::kRunningFile);
  consider(folder / train::kFaultFile);
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with(train::kCrashPrefix)) consider(entry.path());
  }
  return newest;
}

std::string explain(const fs::path& report, Evidence evidence) {
  const Json json = read_json(report);
  const fs::path folder = report.has_parent_path() ? report.parent_path() : fs::path(".");
  const std::string format = json.is_object() ? text_at(json, "format") : "";
  if (format == kFaultFormat) return explain_fault(json, folder, evidence);
  if (format == kCrashFormat) return explain_crash(json);
  if (format == "hone-running-1") {
    if (const auto state = read_running(folder)) return explain_running(*state, folder);
  }
  throw base::UserError(
      {.where = report.string(),
       .expected = "a report of hone's: hone-crash-PID.json, hone-fault.json or hone-running.json",
       .found = format.empty() ? "not a format that hone writes" : "format " + format,
       .cause = {},
       .fix = "give the report, or the run's output_dir"});
}

}  // namespace hone::doctor
