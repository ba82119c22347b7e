#include "text/tokenizer_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "base/strings/utf8.h"

namespace hone::text {
namespace {

using base::KeyUse;
using base::ReadKey;
using enum base::KeyUse;

constexpr std::array kNamedTokens = {"bos_token", "eos_token", "unk_token", "sep_token",
                                     "pad_token", "cls_token", "mask_token"};

constexpr const char* kLengths = "transformers sets truncation and padding at each call";
constexpr const char* kOnlyKept = "transformers keeps it and does nothing with it";
constexpr const char* kInside = "transformers would take it in place of what tokenizer.json has";
constexpr const char* kNoTypes = "language models take no types of tokens";
constexpr const char* kOfProcessor = "it is of the processor around the tokenizer";
constexpr const char* kIsRead = "tokenizer.json is read";
constexpr const char* kNormalizer = "the normalizer of tokenizer.json decides";
constexpr const char* kIds = "ids follow from the texts of the tokens";

constexpr ReadKey kConfigKeys[] = {
    {"bos_token"},
    {"eos_token"},
    {"unk_token"},
    {"sep_token"},
    {"pad_token"},
    {"cls_token"},
    {"mask_token"},
    {"eot_token"},
    {"additional_special_tokens"},
    {"extra_special_tokens"},
    {"model_specific_special_tokens"},
    {"added_tokens_decoder"},
    {"chat_template"},
    {"response_template"},
    {"chat_control_tokens"},
    {"tokenizer_class"},
    {"auto_map"},
    {"split_special_tokens"},
    {"clean_up_tokenization_spaces"},
    {"clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"},
    {"add_prefix_space"},
    {"legacy"},
    {"add_bos_token"},  // transformers takes it from the post-processor; a note says where they differ
    {"add_eos_token"},
    {"init_inputs", kRefused, "hone makes no tokenizer from positional arguments"},
    {"fast_tokenizer_files", kRefused, "hone reads tokenizer.json and no version of it"},
    {"fix_mistral_regex"},
    {"add_special_tokens", kRefused, "it is a method of transformers' tokenizers, which refuse it as well"},
    {"vocab", kRefused, kInside},
    {"merges", kRefused, kInside},
    {"post_processor", kRefused, kInside},
    {"tokenizer_object", kRefused, kInside},
    {"tokenizer_padding", kRefused, kInside},
    {"tokenizer_truncation", kRefused, kInside},
    {"model_max_length", kNeutral, "transformers only warns of longer texts"},
    {"max_len", kNeutral, "it is an older name of model_max_length"},
    {"max_length", kNeutral, kLengths},
    {"truncation", kNeutral, kLengths},
    {"truncation_side", kNeutral, kLengths},
    {"truncation_strategy", kNeutral, kLengths},
    {"stride", kNeutral, kLengths},
    {"padding", kNeutral, kLengths},
    {"padding_side", kNeutral, "TRL pads each method's batches on a side of its own"},
    {"pad_to_multiple_of", kNeutral, kLengths},
    {"pad_token_type_id", kNeutral, kNoTypes},
    {"return_token_type_ids", kNeutral, kNoTypes},
    {"model_input_names", kNeutral, "language models take ids and masks"},
    {"trim_offsets", kNeutral, "it changes no id"},
    {"use_default_system_prompt", kNeutral, kOnlyKept},
    {"spaces_between_special_tokens", kNeutral, kOnlyKept},
    {"sp_model_kwargs", kNeutral, kIsRead},
    {"vocab_file", kNeutral, kIsRead},
    {"merges_file", kNeutral, kIsRead},
    {"tokenizer_file", kNeutral, kIsRead},
    {"from_slow", kNeutral, kIsRead},
    {"use_fast", kNeutral, kIsRead},
    {"slow_tokenizer_class", kNeutral, kIsRead},
    {"special_tokens_map_file", kNeutral, "the file of this folder is read"},
    {"name_or_path", kNeutral, "it says where the tokenizer came from"},
    {"processor_class", kNeutral, kOfProcessor},
    {"image_processor_type", kNeutral, kOfProcessor},
    {"feature_extractor_type", kNeutral, kOfProcessor},
    {"errors", kNeutral, "bytes that are no UTF-8 are replaced"},
    {"verbose", kNeutral, kOnlyKept},
    {"backend", kNeutral, kOnlyKept},
    {"files_loaded", kNeutral, kOnlyKept},
    {"is_local", kNeutral, kOnlyKept},
    {"local_files_only", kNeutral, kOnlyKept},
    {"device_map", kNeutral, kOnlyKept},
    {"tokenizer_type", kNeutral, kOnlyKept},
    {"transformers_version", kNeutral, kOnlyKept},
    {"trust_remote_code", kNeutral, kOnlyKept},
    {"revision", kNeutral, kOnlyKept},
    {"response_schema", kNeutral,
     "it is the older form of response_template, which transformers 5.23 does not read"},
    {"do_lower_case", kNeutral, kNormalizer},
    {"keep_accents", kNeutral, kNormalizer},
    {"remove_space", kNeutral, kNormalizer},
    {"strip_accents", kNeutral, kNormalizer},
    {"tokenize_chinese_chars", kNeutral, kNormalizer},
    {"bos_token_id", kNeutral, kIds},
    {"eos_token_id", kNeutral, kIds},
    {"pad_token_id", kNeutral, kIds},
    {"unk_token_id", kNeutral, kIds},
};

constexpr ReadKey kMapKeys[] = {
    {"bos_token"},
    {"eos_token"},
    {"unk_token"},
    {"sep_token"},
    {"pad_token"},
    {"cls_token"},
    {"mask_token"},
    {"additional_special_tokens"},
    {"extra_special_tokens"},
};

constexpr ReadKey kJsonKeys[] = {
    {"version", kNeutral, "the tokenizers library reads each version that it knows"},
    {"truncation", kNeutral, kLengths},
    {"padding"},  // its token is the pad token where the config names none
    {"added_tokens"},
    {"normalizer"},
    {"pre_tokenizer"},
    {"post_processor"},
    {"decoder"},
    {"model"},
};

constexpr ReadKey kTokenKeys[] = {
    {"content"}, {"single_word"}, {"lstrip"}, {"rstrip"}, {"normalized"}, {"special"}, {"id"}, {"__type"},
};

bool says_something(const base::Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  return !value.empty();  // null, [] and {} are
}

}  // namespace

const base::ReadKeys& tokenizer_config_keys() {
  static constexpr base::ReadKeys kKeys("tokenizer_config.json", kConfigKeys);
  return kKeys;
}
const base::ReadKeys& special_tokens_map_keys() {
  static constexpr base::ReadKeys kKeys("special_tokens_map.json", kMapKeys);
  return kKeys;
}
const base::ReadKeys& tokenizer_json_keys() {
  static constexpr base::ReadKeys kKeys("tokenizer.json", kJsonKeys);
  return kKeys;
}
const base::ReadKeys& added_token_keys() {
  static constexpr base::ReadKeys kKeys("an added token", kTokenKeys);
  return kKeys;
}

bool is_named_token(std::string_view key) {
  return std::find(kNamedTokens.begin(), kNamedTokens.end(), key) != kNamedTokens.end();
}

void check_refused_keys(const base::Json& config, const std::string& where) {
  for (const ReadKey& key : tokenizer_config_keys().keys()) {
    if (key.use != KeyUse::kRefused) continue;
    const base::Json& value = tokenizer_config_keys().at(config, key.name);
    if (!says_something(value)) continue;
    // The usual list names only the file that is read.
    if (key.name == "fast_tokenizer_files" && value == base::Json::array({"tokenizer.json"})) continue;
    throw base::UserError(
        {.where = where + ", " + std::string(key.name),
         .expected = "a tokenizer without " + std::string(key.name),
         .found = base::cut_text(base::dump_json(value), 200),
         .cause = std::string(key.why),
         .fix =
             "save it once in Python, AutoTokenizer.from_pretrained(FOLDER).save_pretrained(OTHER), and remove "
             "the key from OTHER/tokenizer_config.json"});
  }
}

std::string note_of_unmarked(const base::ReadKeys& keys, const base::Json& object) {
  std::vector<std::string> names = keys.unmarked(object);
  std::erase_if(names, [&](const std::string& name) {
    const base::Json& value = object.at(name);
    return !says_something(value) || (name.ends_with("_token") && (value.is_string() || value.is_object()));
  });
  if (names.empty()) return {};
  constexpr std::size_t kMost = 6;
  const std::size_t count = names.size();
  if (count > kMost) names.resize(kMost);
  for (std::string& name : names) name = base::cut_text(name, 60);
  return fmt::format("{}: hone does not know {}{}, and takes no notice of {}", keys.kind(),
                     fmt::join(names, ", "), count > kMost ? ", ..." : "", count == 1 ? "it" : "them");
}

}  // namespace hone::text
