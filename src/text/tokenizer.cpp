#include "text/tokenizer.h"

#include <string>
#include <utility>

#include "base/error.h"
#include "base/numeric.h"
#include "base/utf8.h"
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

// The id of a special token that the config names; it must exist, or the config belongs to another tokenizer.
std::optional<std::int32_t> id_of(const TokenizerFiles& files, const TokenizerHandle& handle,
                                  const char* name) {
  const auto token = files.special.named.find(name);
  if (token == files.special.named.end()) return std::nullopt;
  const std::int64_t id = hone_text_token_to_id(handle.get(), token->second.data(), token->second.size());
  if (id >= 0) return checked_id(static_cast<std::uint32_t>(id), files);
  throw base::UserError({.where = (base::fs::path(files.where) / kTokenizerConfig).string(),
                         .expected = std::string(name) + " to be a token of tokenizer.json",
                         .found = "'" + token->second + "', which it does not have",
                         .cause = "tokenizer.json and tokenizer_config.json come from different models",
                         .fix = "take both files from the same repository"});
}

}  // namespace

std::unique_ptr<Tokenizer::Impl> Tokenizer::Impl::make(TokenizerFiles files) {
  auto impl = std::make_unique<Impl>();
  impl->files = std::move(files);
  const std::string& json = impl->files.files.at(kTokenizerJson);
  hone_text_tokenizer* handle = nullptr;
  RustText message;
  const int status = hone_text_tokenizer_new(json.data(), json.size(), &handle, message.out());
  if (status != HONE_TEXT_OK) {
    throw base::UserError(
        {.where = (base::fs::path(impl->files.where) / kTokenizerJson).string(),
         .expected = "a tokenizer in the format of Hugging Face's tokenizers 0.23",
         .found = (status == HONE_TEXT_LIMIT ? "a file that " : "") + cut_text(message.view(), kMaxMessage),
         .cause = "an interrupted download, or a Git LFS pointer file",
         .fix = "download the file again and compare its size"});
  }
  impl->handle.reset(handle);
  impl->eos_id = id_of(impl->files, impl->handle, "eos_token");
  impl->pad_id = id_of(impl->files, impl->handle, "pad_token");
  if (!impl->pad_id) impl->pad_id = impl->eos_id;
  return impl;
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
  return text.str();
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
  return impl_->files.chat_template;
}

void Tokenizer::save(const base::fs::path& folder) const {
  base::fs::create_directories(folder);
  for (const auto& [name, contents] : impl_->files.files) base::write_file_atomic(folder / name, contents);
}

}  // namespace hone::text
