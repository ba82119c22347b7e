#include "train/batches/tool_journal.h"

#include <system_error>
#include <vector>

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
            .arguments = json.at("arguments"),  // as text: NaN is no JSON, and equals nothing
            .result = json.at("result").get<std::string>(),
            .failed = json.at("failed").get<bool>(),
            .seconds = json.at("seconds").get<double>()};
}

// Of a line that this program has written.
std::uint64_t generation_of(std::string_view line) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  const Json call = json.is_object() ? json.value("call", Json()) : Json();
  return call.is_array() && !call.empty() && call[0].is_number_unsigned() ? call[0].get<std::uint64_t>() : 0;
}

std::string text_of(const Json& arguments) {
  return base::dump_python_json(arguments);
}

// The bytes of whole lines: what follows is a line that a crash has cut.
std::size_t read_journal(const fs::path& file, std::uint64_t first_generation,
                         std::map<CallPlace, ToolCall>& to) {
  const std::string text = base::read_text(file);
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
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
  return begin;
}

bool is_journal(const fs::path& file) {
  const std::string name = file.filename().string();
  return name.starts_with(kJournal) && name.ends_with(".jsonl");
}

// The file of this rank, where what another run has left is taken away first.
fs::path begun(const JournalPlace& place) {
  const fs::path own = journal_of(place.output_dir, place.rank);
  if (place.resumes) return own;
  std::error_code error;
  std::vector<fs::path> others = {own};
  if (place.rank == 0) {
    for (const auto& entry : fs::directory_iterator(place.output_dir, error)) {
      if (is_journal(entry.path())) others.push_back(entry.path());
    }
    for (int rank = 1; rank < place.ranks; ++rank) std::erase(others, journal_of(place.output_dir, rank));
  }
  for (const fs::path& file : others) fs::remove(file, error);
  return own;
}

}  // namespace

ToolJournal::ToolJournal(const JournalPlace& place, std::uint64_t first_generation) : path_(begun(place)) {
  file_.emplace(path_);
  if (!place.resumes) return;
  for (const auto& entry : fs::directory_iterator(place.output_dir)) {
    if (!is_journal(entry.path())) continue;
    const std::size_t whole = read_journal(entry.path(), first_generation, known_);
    if (entry.path() == path_) file_->truncate(whole);
  }
}

void ToolJournal::forget_before(std::uint64_t generation) {
  known_.erase(known_.begin(), known_.lower_bound({.generation = generation}));
}

void ToolJournal::trim(std::uint64_t generation) {
  file_.reset();  // writes what it has kept
  try {
    const std::string text = base::read_text(path_);
    std::string kept;
    for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      const std::string_view line = std::string_view(text).substr(begin, end - begin + 1);
      if (generation_of(line) >= generation) kept += line;
    }
    if (kept.size() < text.size()) base::write_file_atomic(path_, kept);
  } catch (const base::UserError&) {  // the file is as it was
  }
  file_.emplace(path_);
}

std::optional<ToolCall> ToolJournal::find(const CallPlace& place, const ToolCall& call) const {
  const auto found = known_.find(place);
  if (found == known_.end()) return std::nullopt;
  const ToolCall& known = found->second;
  if (known.name != call.name || known.arguments != Json(text_of(call.arguments))) return std::nullopt;
  ToolCall out = known;
  out.arguments = call.arguments;
  return out;
}

void ToolJournal::write(const CallPlace& place, const ToolCall& call) {
  const Json line = {{"call", {place.generation, place.prompt, place.sample, place.index}},
                     {"turn", call.turn},
                     {"name", call.name},
                     {"arguments", text_of(call.arguments)},
                     {"result", call.result},
                     {"failed", call.failed},
                     {"seconds", call.seconds}};
  file_->append(base::dump_json(line) + "\n");
}

void remove_journals(const fs::path& output_dir) {
  std::error_code error;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(output_dir, error)) {
    if (is_journal(entry.path())) found.push_back(entry.path());
  }
  for (const fs::path& file : found) fs::remove(file, error);
}

}  // namespace hone::train
