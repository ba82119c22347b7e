#include "train/batches/tool_journal.h"

#include <system_error>

#include "base/error.h"
#include "base/json.h"

namespace hone::train {

namespace {

namespace fs = base::fs;
using base::Json;

constexpr std::string_view kJournal = ".hone-tools-";

fs::path journal_of(const fs::path& output_dir, int rank) {
  return output_dir / (std::string(kJournal) + std::to_string(rank) + ".jsonl");
}

void read_line(const std::string& line, const fs::path& file, std::uint64_t first_generation,
               std::map<CallPlace, ToolCall>& to) {
  const Json json = base::parse_json(line, file.string());
  const Json& place = json.at("call");
  const CallPlace at = {.generation = place.at(0).get<std::uint64_t>(),
                        .prompt = place.at(1).get<std::uint64_t>(),
                        .sample = place.at(2).get<std::uint64_t>(),
                        .index = place.at(3).get<std::uint64_t>()};
  if (at.generation < first_generation) return;
  to[at] = {.turn = json.at("turn").get<std::int64_t>(),
            .name = json.at("name").get<std::string>(),
            .arguments = json.at("arguments"),
            .result = json.at("result").get<std::string>(),
            .failed = json.at("failed").get<bool>(),
            .seconds = json.at("seconds").get<double>()};
}

// Only the last line of a file can be half written.
void read_journal(const fs::path& file, std::uint64_t first_generation, std::map<CallPlace, ToolCall>& to) {
  const std::string text = base::read_text(file);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) return;
    try {
      read_line(text.substr(begin, end - begin), file, first_generation, to);
    } catch (const Json::exception& error) {
      throw base::UserError({.where = file.string(),
                             .expected = "results of tools, as the run that goes on wrote them",
                             .found = error.what(),
                             .cause = "the file was edited",
                             .fix = "remove it: tools of the interrupted batch are then called again"});
    }
    begin = end + 1;
  }
}

// The journal's file as this start begins it.
fs::path begun(const fs::path& file, bool resumes) {
  std::error_code error;
  if (!resumes) fs::remove(file, error);
  return file;
}

}  // namespace

ToolJournal::ToolJournal(const fs::path& output_dir, int rank, bool resumes, std::uint64_t first_generation)
    : file_(begun(journal_of(output_dir, rank), resumes)) {
  if (!resumes) return;
  for (const auto& entry : fs::directory_iterator(output_dir)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kJournal) && name.ends_with(".jsonl"))
      read_journal(entry.path(), first_generation, known_);
  }
}

std::optional<ToolCall> ToolJournal::find(const CallPlace& place, const ToolCall& call) const {
  const auto found = known_.find(place);
  if (found == known_.end()) return std::nullopt;
  const ToolCall& known = found->second;
  if (known.name != call.name || known.arguments != call.arguments) return std::nullopt;
  return known;
}

void ToolJournal::write(const CallPlace& place, const ToolCall& call) {
  const Json line = {{"call", {place.generation, place.prompt, place.sample, place.index}},
                     {"turn", call.turn},
                     {"name", call.name},
                     {"arguments", call.arguments},
                     {"result", call.result},
                     {"failed", call.failed},
                     {"seconds", call.seconds}};
  file_.append(base::dump_json(line) + "\n");
}

}  // namespace hone::train
