// The tools of a conversation: hone chat --tools. Turns are parsed, and results written, as in training
// (train/batches/tool_rollouts.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/chat_template.h"
#include "tools/response_parser.h"
#include "tools/suffix_forms.h"
#include "tools/suffix_maker.h"
#include "tools/tool_pool.h"
#include "train/opening/open_model.h"

namespace hone::commands {

class ChatTools {
 public:
  // `text` must outlive it. `model` and `variables`: the template's origin and its variables. Adds what ends
  // a turn with calls to `stop_ids`. UserError for a template that cannot show tools, or of which no parser
  // is known.
  ChatTools(std::unique_ptr<tools::ToolPool> pool, const train::OpenedText& text, const std::string& model,
            const base::Json& variables, std::vector<std::int64_t>& stop_ids);

  const text::ChatTemplate& chat() const { return *chat_; }         // of all prompts
  const base::Json& schemas() const { return schemas_; }            // of all prompts
  const std::vector<std::string>& notes() const { return notes_; }  // a sentence each

  // Reads a turn that was sampled after `prompt`. Without calls it is the answer.
  tools::Turn read(std::span<const std::int32_t> prompt, std::span<const std::int32_t> drawn) const;

  // Returns the ids between a turn that ended with `last_id` and the next one, where a message of the user follows: the last of
  // `messages`, before which that turn stands. nullopt: the template writes the turns before otherwise once a message follows (it takes their reasoning
  // out), so that the conversation has to be rendered again.
  std::optional<std::vector<std::int32_t>> behind(const base::Json& messages, std::int32_t last_id) const;

  struct Results {
    std::vector<std::int32_t> suffix;  // what stands between the turn and the next one
    base::Json messages;  // the turn and its results, as the template takes them when it renders them again
    std::vector<std::string> notes;  // what the model is not told of failures
  };
  // Runs the calls of a turn, whose last id is `last_id`. `show` gets a line for each call, and one for its result.
  Results run(const tools::Turn& turn, std::int32_t last_id,
              const std::function<void(const std::string&)>& show);

 private:
  const text::Tokenizer& tokenizer_;
  base::Json variables_;
  std::unique_ptr<tools::ToolPool> pool_;
  std::vector<std::string> notes_;
  std::shared_ptr<const text::ChatTemplate> chat_;
  tools::ResponseParser parser_;
  tools::SuffixForms forms_;
  tools::SuffixMaker suffixes_;
  base::Json schemas_;
};

}  // namespace hone::commands
