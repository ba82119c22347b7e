// A sample of completions/ for the page: files at even distances, the first and the newest among them, cut to a size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/files/file.h"
#include "base/json.h"

namespace hone::report {

struct CompletionsLimits {
  std::size_t files = 24;
  std::size_t bytes = 600'000;       // of all texts together
  std::size_t prompt_bytes = 1'500;  // of one text, which is cut
  std::size_t completion_bytes = 4'000;
};

struct CompletionsSample {
  std::int64_t files = 0;    // that the run has
  std::int64_t skipped = 0;  // lines that are no JSON objects
  // {"step", "rows": number in the file, "columns": names, "prompts": [text], "completions": [[prompt, text, values...]]},
  // ascending; "prompt" is an index, since the completions of a prompt are beside each other.
  // The text of a dialogue with tools is an object: {"turns": [[kind, text, tool, failed, unread]], "spans": [[text, drawn]],
  // "left_out": turns}; kind: "reasoning", "said", "call", "result".
  std::vector<base::Json> steps;
};

// Reads again only what it has not read: a file is written once, when its step begins, or shortly after.
class CompletionsReader {
 public:
  explicit CompletionsReader(base::fs::path folder, const CompletionsLimits& limits = {})
      : folder_(std::move(folder)), limits_(limits) {}

  // The sample of a run without completions is empty. A file that cannot be read is left out.
  CompletionsSample read();

 private:
  struct File {
    std::uintmax_t size = 0;
    std::size_t budget = 0;
    base::Json content;
    std::int64_t skipped = 0;
  };
  const File& read_file(std::int64_t step, const base::fs::path& path, std::size_t budget);

  base::fs::path folder_;
  CompletionsLimits limits_;
  std::map<std::int64_t, File> read_;  // of the last sample
};

}  // namespace hone::report
