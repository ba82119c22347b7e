#include "text/tokenizer.h"

#include <string>
#include <utility>

#include "base/error.h"
#include "base/numeric.h"
#include "base/strings/utf8.h"
#include "text/tokenizer_impl.h"

namespace hone::text {
namespace {

using base::cut_text;
constexpr std::size_t kMaxMessage = 500;  // bytes: errors of parsers quote the file

void check(int status, const RustText& message, const std::string& what, const char* expected,
           const TokenizerFiles& files) {
  if (status == HONE_TEXT_OK) return;
  if (status == HONE_TEXT_ERROR) {
    throw base::UserError({.where = what,
                           .expected = expected,
                           .found = cut_text(message.view(), kMaxMessage),
                           .cause = "",
                           .fix = ""});
  }
  throw base::UserError(
      {.where = (base::fs::path(files.where) / kTokenizerJson).string(),
       .expected = "a tokenizer that can be applied to " + what,
       .found = (status == HONE_TEXT_LIMIT ? "it " : "it gave up: ") + cut_text(message.view(), kMaxMessage),
       .cause = "a damaged or malicious tokenizer.json, or a text far longer than any context",
       .fix = "download tokenizer.json from the model's repository again"});
}

// An id of tokenizer.json as hone holds it.
std::int32_t checked_id(std::uint32_t id, const TokenizerFiles& files) {
  if (std::in_range<std::int32_t>(id)) return static_cast<std::int32_t>(id);
  throw base::UserError({.where = (base::fs::path(files.where) / kTokenizerJson).string(),
                         .expected = "token ids below 2^31",
                         .found = "the id " + std::to_string(id),
                         .cause = "a damaged or malicious file",
                         .fix = "download tokenizer.json from the model's repository again"});
}

// The id of a named token. Reading the files adds such tokens; an empty one is not, and transformers then
// takes the unknown token's.
std::optional<std::int32_t> id_of(const TokenizerFiles& files, const TokenizerHandle& handle,
                                  const char* name) {
  for (const char* const each : {name, "unk_token"}) {
    const auto token = files.special.named.find(each);
    if (token == files.special.named.end()) return std::nullopt;
    const std::int64_t id = hone_text_token_to_id(handle.get(), token->second.data(), token->second.size());
    if (id >= 0) return checked_id(static_cast<std::uint32_t>(id), files);
  }
  return std::nullopt;
}

// add_bos_token and add_eos_token, where the post-processor does otherwise.
void note_affixes(const TokenizerHandle& handle, TokenizerFiles& files) {
  const auto ids = [&handle](bool add_special) {
    RustIds found;
    RustText message;
    const int status = hone_text_encode(handle.get(), "a", 1, add_special, 0, found.out(), message.out());
    return status == HONE_TEXT_OK ? std::vector<std::uint32_t>(found->ids, found->ids + found->size)
                                  : std::vector<std::uint32_t>();
  };
  if (!files.says_bos && !files.says_eos) return;
  const std::vector<std::uint32_t> bare = ids(false), whole = ids(true);
  if (bare.empty() || whole.empty()) return;
  const auto note = [&](std::optional<bool> says, bool does, const char* key, const char* where) {
    if (!says || *says == does) return;
    files.notes.push_back(std::string(key) + ": " + (*says ? "true" : "false") +
                          " has no effect beside tokenizer.json, as in transformers 5: its post_processor " +
                          (does ? "adds" : "does not add") + " a token " + where + " a text");
  };
  note(files.says_bos, whole.front() != bare.front(), "add_bos_token", "before");
  note(files.says_eos, whole.back() != bare.back(), "add_eos_token", "behind");
}

// PreTrainedTokenizerBase.clean_up_tokenization.
std::string cleaned(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},     {" ?", "?"},   {" !", "!"},   {" ,", ","},     {" ' ", "'"},
      {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  }
  return text;
}

}  // namespace

std::unique_ptr<Tokenizer::Impl> Tokenizer::Impl::make(TokenizerFiles files) {
  auto impl = std::make_unique<Impl>();
  impl->files = std::move(files);
  const std::string& json = impl->files.files.at(kTokenizerJson);
  hone_text_tokenizer* handle = nullptr;
  RustText message;
  const std::string form = base::dump_json(impl->files.form);
  const int status =
      hone_text_tokenizer_new(json.data(), json.size(), form.data(), form.size(), &handle, message.out());
  if (status != HONE_TEXT_OK)
    throw_unreadable(impl->files, (status == HONE_TEXT_LIMIT ? "a file that " : "") + message.str());
  impl->handle.reset(handle);
  impl->eos_id = id_of(impl->files, impl->handle, "eos_token");
  impl->pad_id = id_of(impl->files, impl->handle, "pad_token");
  if (!impl->pad_id) impl->pad_id = impl->eos_id;
  note_affixes(impl->handle, impl->files);
  return impl;
}

std::string tokenizer_json_in_effect(const TokenizerFiles& files) {
  // The pipeline of a byte-level class may split text otherwise than tokenizer.json's.
  const base::Json& pipeline = files.form.is_object() ? files.form.at("pipeline") : files.form;
  const bool splits = pipeline.is_object() &&
                      base::dump_json(pipeline.at("pre_tokenizer")).find("ByteLevel") != std::string::npos;
  return files.changed || splits ? Tokenizer::Impl::make(files)->json() : files.files.at(kTokenizerJson);
}

std::string Tokenizer::Impl::json() const {
  RustText out;
  RustText message;
  const int status = hone_text_tokenizer_json(handle.get(), out.out(), message.out());
  check(status, message, "being written", "a tokenizer that can be written", files);
  return out.str();
}

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::from_folder(const base::fs::path& folder) {
  return Tokenizer(Impl::make(read_tokenizer_folder(folder)));
}

Tokenizer Tokenizer::from_json(std::string_view tokenizer_json, std::string_view config_json,
                               const std::string& where) {
  TokenizerFiles files;
  files.where = where;
  files.files[kTokenizerJson] = tokenizer_json;
  if (!config_json.empty()) files.files[kTokenizerConfig] = config_json;
  read_tokenizer_config(files);
  return Tokenizer(Impl::make(std::move(files)));
}

Encoding Tokenizer::encode(std::string_view text, bool add_special, bool want_offsets) const {
  RustIds ids;
  RustText message;
  const int status = hone_text_encode(impl_->handle.get(), text.data(), text.size(), add_special,
                                      want_offsets, ids.out(), message.out());
  check(status, message, "a text", "valid UTF-8", impl_->files);
  Encoding out;
  out.ids.reserve(ids->size);
  for (const std::uint32_t id : std::span(ids->ids, ids->size))
    out.ids.push_back(checked_id(id, impl_->files));
  if (want_offsets) {
    out.byte_offsets.reserve(ids->size);
    for (std::size_t i = 0; i < ids->size; ++i) {
      out.byte_offsets.emplace_back(ids->offsets[2 * i], ids->offsets[2 * i + 1]);
    }
  }
  return out;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  std::vector<std::uint32_t> unsigned_ids;
  unsigned_ids.reserve(ids.size());
  for (const std::int32_t id : ids) unsigned_ids.push_back(base::narrow<std::uint32_t>(id));
  RustText text;
  RustText message;
  const int status = hone_text_decode(impl_->handle.get(), unsigned_ids.data(), unsigned_ids.size(),
                                      skip_special, text.out(), message.out());
  check(status, message, "token ids", "ids of this tokenizer", impl_->files);
  return impl_->files.cleans_spaces ? cleaned(text.str()) : text.str();
}

std::optional<std::int32_t> Tokenizer::token_to_id(std::string_view token) const {
  const std::int64_t id = hone_text_token_to_id(impl_->handle.get(), token.data(), token.size());
  if (id < 0) return std::nullopt;
  return checked_id(static_cast<std::uint32_t>(id), impl_->files);
}

std::optional<std::string> Tokenizer::id_to_token(std::int32_t id) const {
  RustText token;
  if (id < 0 || hone_text_id_to_token(impl_->handle.get(), static_cast<std::uint32_t>(id), token.out()) !=
                    HONE_TEXT_OK) {
    return std::nullopt;
  }
  return token.str();
}

std::int64_t Tokenizer::vocab_size() const {
  return base::narrow<std::int64_t>(hone_text_vocab_size(impl_->handle.get()));
}

const SpecialTokens& Tokenizer::special() const {
  return impl_->files.special;
}
std::optional<std::int32_t> Tokenizer::eos_id() const {
  return impl_->eos_id;
}
std::optional<std::int32_t> Tokenizer::pad_id() const {
  return impl_->pad_id;
}
std::optional<std::int32_t> Tokenizer::eot_id() const {
  const std::optional<std::string>& token = special().eot;
  return token ? token_to_id(*token) : std::nullopt;
}
const std::optional<std::string>& Tokenizer::chat_template() const {
  return impl_->files.templates.main;
}
const ChatTemplates& Tokenizer::chat_templates() const {
  return impl_->files.templates;
}
const std::vector<std::string>& Tokenizer::notes() const {
  return impl_->files.notes;
}

void Tokenizer::save(const base::fs::path& folder) const {
  base::fs::create_directories(folder);
  const std::string as_it_is = impl_->files.has_lengths ? impl_->json() : std::string();
  for (const auto& [name, contents] : files_to_save(impl_->files, as_it_is))
    base::write_file_atomic(folder / name, contents);
}

}  // namespace hone::text
