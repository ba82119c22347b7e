#include "data/forms/cpo_pairs.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "data/files/row_threads.h"
#include "data/forms/row_checks.h"
#include "data/forms/row_encoder.h"

namespace hone::data {
namespace {

using base::Json;
using base::UserError;
using Ids = std::vector<std::int32_t>;

// ---- text

// The parts of a row as text; the prompt is what comes before both completions.
struct PairText {
  std::string prompt, chosen, rejected;
};

// Bytes that both begin with, whole characters of UTF-8 only.
std::size_t common_prefix(std::string_view a, std::string_view b) {
  const auto continues = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; };
  auto at = static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  while (at > 0 && ((at < a.size() && continues(a[at])) || (at < b.size() && continues(b[at])))) --at;
  return at;
}

// apply_chat_template's continue_final_message: a mark behind the last message's text shows where it ends.
constexpr std::string_view kFinalMark = "CONTINUE_FINAL_MESSAGE_TAG ";

std::string* last_text(Json& content) {
  if (content.is_string()) return content.get_ptr<std::string*>();
  if (!content.is_array()) return nullptr;
  for (auto block = content.rbegin(); block != content.rend(); ++block) {
    if (block->is_object() && block->contains("text") && block->at("text").is_string())
      return (*block)["text"].get_ptr<std::string*>();
  }
  return nullptr;
}

[[noreturn]] void throw_not_continued(std::string found) {
  throw UserError({.where = "prompt",
                   .expected = "a last message that the chat template writes as it is, to be continued",
                   .found = std::move(found),
                   .cause = "the prompt's last message is the assistant's",
                   .fix = "end the prompt with the user's message"});
}

std::string cut_at_mark(std::string text) {
  const std::string_view bare = kFinalMark.substr(0, kFinalMark.size() - 1);
  const std::size_t at = text.rfind(bare);
  if (at == std::string::npos) throw_not_continued("a rendering without it");
  const bool kept = std::string_view(text).substr(at, kFinalMark.size()) == kFinalMark;
  text.resize(at);
  if (!kept) text.erase(text.find_last_not_of(" \t\r\n\f\v") + 1);  // the template trims messages
  return text;
}

class PairRenderer {
 public:
  PairRenderer(const text::ChatTemplate& chat_template, const PreferenceRow& row)
      : chat_template_(chat_template), row_(row) {}

  PairText parts() const {
    const std::string prompt = rendered_prompt();
    const std::string chosen = render(with(row_.chosen), false);
    const std::string rejected = render(with(row_.rejected), false);
    const std::size_t size = std::min(common_prefix(prompt, chosen), common_prefix(prompt, rejected));
    return {
        .prompt = prompt.substr(0, size), .chosen = chosen.substr(size), .rejected = rejected.substr(size)};
  }

 private:
  std::string rendered_prompt() const {
    const std::string role = row_.prompt.back().at("role");
    if (role == "user" || role == "tool") return render(row_.prompt, true);
    if (role != "assistant") {
      throw UserError({.where = "prompt",
                       .expected = "a last message of the user, a tool or the assistant",
                       .found = "one with role '" + role + "'",
                       .cause = "chosen and rejected answer the prompt",
                       .fix = "move the question into the prompt"});
    }
    Json messages = row_.prompt;
    std::string* const content =
        messages.back().contains("content") ? last_text(messages.back()["content"]) : nullptr;
    if (content == nullptr) throw_not_continued("a message without text");
    content->append(kFinalMark);
    return cut_at_mark(render(messages, false));
  }

  Json with(const Json& completion) const {
    Json out = row_.prompt;
    out.insert(out.end(), completion.begin(), completion.end());
    return out;
  }

  std::string render(const Json& messages, bool add_generation_prompt) const {
    return chat_template_
        .render({.messages = messages,
                 .tools = row_.tools,
                 .template_kwargs = row_.template_kwargs,
                 .add_generation_prompt = add_generation_prompt})
        .text;
  }

  const text::ChatTemplate& chat_template_;
  const PreferenceRow& row_;
};

// ---- tokens

struct Side {
  Ids prompt, completion;
  bool merged = false;  // the prompt's encoding changes when the completion follows
};

class CpoTokenizer {
 public:
  CpoTokenizer(const PreferenceRows& rows, const text::Tokenizer& tokenizer,
               const text::ChatTemplate* chat_template, const PairOptions& options)
      : rows_(rows), tokenizer_(tokenizer), chat_template_(chat_template), options_(options) {
    if (const auto& bos = tokenizer.special().bos) bos_ = tokenizer.token_to_id(*bos);
    eos_ = tokenizer.eos_id();
  }

  PairDone row(std::size_t index) const {
    const RowName where = [&] { return rows_.where(index); };
    const PairText text = text_of(rows_.rows[index], where);
    const Ids prompt = encode(text.prompt);
    Side chosen = side(text.prompt + text.chosen, prompt, where);
    Side rejected = side(text.prompt + text.rejected, prompt, where);
    require_one_prompt(chosen.prompt, rejected.prompt, where);
    PairDone done;
    done.boundary_mismatch = chosen.merged || rejected.merged;
    for (Side* one : {&chosen, &rejected}) {
      add_special(*one);
      done.longest = std::max(done.longest, std::ssize(one->prompt) + std::ssize(one->completion));
    }
    if (options_.max_prompt_length > 0) cut_prompts(chosen, rejected);
    for (Side* one : {&chosen, &rejected}) {
      const std::size_t size = one->prompt.size() + one->completion.size();
      const auto limit = static_cast<std::size_t>(options_.max_length);
      done.dropped = done.dropped || one->prompt.size() >= limit;
      if (size > limit) one->completion.resize(limit - std::min(limit, one->prompt.size()));
    }
    done.cut = done.longest > options_.max_length;
    if (done.dropped) return done;
    add(Part::kChosen, chosen, where, done.record);
    add(Part::kRejected, rejected, where, done.record);
    return done;
  }

 private:
  PairText text_of(const PreferenceRow& row, const RowName& where) const {
    if (!rows_.conversational) return {.prompt = row.prompt, .chosen = row.chosen, .rejected = row.rejected};
    return with_row_context(where, [&] { return PairRenderer(*chat_template_, row).parts(); });
  }

  Ids encode(const std::string& text) const { return tokenizer_.encode(text, /*add_special=*/false).ids; }

  // TRL's build_tokenized_answer.
  Side side(const std::string& whole, const Ids& prompt, const RowName& where) const {
    const Ids ids = encode(whole);
    if (ids.size() < prompt.size()) throw_boundary(where);
    std::size_t begin = prompt.size();
    const bool merged = !std::equal(prompt.begin(), prompt.end(), ids.begin());
    if (merged) --begin;
    const auto at = ids.begin() + static_cast<std::ptrdiff_t>(begin);
    return {.prompt = {ids.begin(), at}, .completion = {at, ids.end()}, .merged = merged};
  }

  static void require_one_prompt(const Ids& chosen, const Ids& rejected, const RowName& where) {
    const std::size_t least = std::min(chosen.size(), rejected.size());
    std::size_t different = 0;
    for (std::size_t i = 0; i < least; ++i) different += chosen[i] != rejected[i] ? 1 : 0;
    if (different > 1) throw_boundary(where);
  }

  [[noreturn]] static void throw_boundary(const RowName& where) {
    throw UserError(
        {.where = where(),
         .expected = "a prompt that keeps its tokens, but for the last, when a completion follows",
         .found = "more of its tokens change",
         .cause = "the prompt ends within a word",
         .fix = "move the end of the prompt into the completions, or remove the row"});
  }

  void add_special(Side& one) const {
    if (bos_ && (one.prompt.empty() || one.prompt.front() != *bos_))
      one.prompt.insert(one.prompt.begin(), *bos_);
    if (one.completion.empty() || one.completion.back() != *eos_) one.completion.push_back(*eos_);
  }

  void cut_prompts(Side& chosen, Side& rejected) const {
    const std::int64_t longer = std::max(std::ssize(chosen.completion), std::ssize(rejected.completion));
    for (Side* one : {&chosen, &rejected}) {
      const auto too_long = [&] { return std::ssize(one->prompt) + longer > options_.max_length; };
      const std::int64_t over = std::ssize(one->prompt) - options_.max_prompt_length;
      if (too_long() && over > 0) one->prompt.erase(one->prompt.begin(), one->prompt.begin() + over);
      const auto kept = static_cast<std::size_t>(options_.max_length - options_.max_prompt_length);
      if (too_long() && one->completion.size() > kept) one->completion.resize(kept);
    }
  }

  void add(Part part, const Side& one, const RowName& where, Record& record) const {
    for (const Ids* ids : {&one.prompt, &one.completion})
      check_token_ids(*ids, options_.vocab_size, tokenizer_, where);
    const std::span<const std::int32_t> completion = one.completion;
    if (!one.prompt.empty()) return add_sequence(record, part, one.prompt, completion);
    if (completion.size() < 2) throw_one_token(where() + (part == Part::kChosen ? " chosen" : " rejected"));
    // Nothing predicts the first one.
    add_sequence(record, part, completion.first(1), completion.subspan(1), std::ssize(completion));
  }

  const PreferenceRows& rows_;
  const text::Tokenizer& tokenizer_;
  const text::ChatTemplate* chat_template_;
  const PairOptions& options_;
  std::optional<std::int32_t> bos_, eos_;
};

}  // namespace

std::vector<PairDone> make_cpo_pairs(const PreferenceRows& rows, const text::Tokenizer& tokenizer,
                                     const text::ChatTemplate* chat_template, const PairOptions& options) {
  base::require(options.max_length >= 2, "make_cpo_pairs", "a max_length");
  base::require(options.max_prompt_length < options.max_length, "make_cpo_pairs", "a max_prompt_length");
  require_template_or_eos(rows.path, rows.conversational, tokenizer, chat_template, /*by_option=*/false);
  require_template_or_eos(rows.path, /*conversational=*/false, tokenizer, nullptr, /*by_option=*/false);
  return made_rows<PairDone>(rows.rows.size(), rows.first == 0, options.threads,
                             [&] { return CpoTokenizer(rows, tokenizer, chat_template, options); });
}

}  // namespace hone::data
