#include "adapters/saved_vocabulary.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <set>

#include "adapters/adapter_file.h"
#include "adapters/peft_files.h"
#include "adapters/whole_modules.h"
#include "base/error.h"
#include "base/files/path_kind.h"
#include "base/gguf/gguf.h"
#include "base/json_tools.h"
#include "base/strings/plural.h"
#include "base/strings/utf8.h"
#include "model/config/families.h"
#include "model/files/vocabulary_source.h"

namespace hone::adapters {
namespace {

using base::UserError;

// What one adapter's file says of the vocabulary.
struct SavedVocabulary {
  std::int64_t rows = 0;                     // 0: nothing
  std::map<std::string, at::Tensor> values;  // the base's matrices, by the tensor's name; fp32
  std::vector<std::string> whole;  // those that are trained in full, of which the base's do not matter
};

std::string prefixed(const std::string& module) {
  return "base_model.model." + module;
}

// The rows that a file has of `module`, in whatever it has of it; 0: nothing.
std::int64_t rows_in(const AdapterFile& file, const std::string& module, std::int64_t width) {
  const std::string weight = prefixed(module) + ".weight";
  std::vector<std::string> keys = keys_of_base(module, /*whole=*/false);
  keys.insert(keys.end(), {in_wrapper(weight, kTrainedCopy), key_b(module)});
  for (const std::string& key : keys) {
    const base::StoredTensor* stored = file.find(key);
    if (stored == nullptr || stored->shape.size() != 2) continue;
    if (stored->shape[1] == width || key == key_b(module)) return stored->shape[0];
  }
  const base::StoredTensor* a = file.find(key_embedding_a(module));
  return a != nullptr && a->shape.size() == 2 ? a->shape[1] : 0;
}

std::optional<SavedVocabulary> read_vocabulary(const base::fs::path& folder,
                                               const model::ModelConfig& model) {
  const base::fs::path settings = folder / kConfigFile;
  if (!base::exists(settings) || !base::exists(folder / kWeightsFile)) return std::nullopt;
  const LoraConfig config =
      config_from_json(base::parse_json(base::read_settings(settings), settings.string()), settings.string());
  const AdapterFile file(folder);
  const std::vector<std::string> modules = vocabulary_modules(model);
  SavedVocabulary out;
  for (const std::string& module : modules) {
    if (config.score_head && module != modules.front()) continue;  // it has no head
    const std::int64_t rows = rows_in(file, module, model.hidden_size);
    if (out.rows == 0) out.rows = rows;
    const bool whole = is_trained_whole(config, module);
    if (whole) out.whole.push_back(module + ".weight");
    for (const std::string& key : keys_of_base(module, whole)) {
      const base::StoredTensor* stored = file.find(key);
      if (stored != nullptr && stored->shape == std::vector<std::int64_t>{rows, model.hidden_size})
        out.values[module + ".weight"] = file.read(*stored);
    }
  }
  if (out.rows == 0) return std::nullopt;
  std::erase_if(out.values, [&](const auto& one) { return one.second.size(0) != out.rows; });
  return out;
}

// Whether a matrix is the model's own.
bool is_own(const model::WeightSource& source, const std::string& name, const at::Tensor& value) {
  return source.shape(name) == value.sizes().vec() && source.read(name, at::kFloat).equal(value);
}

// One matrix of a tied pair stands for both.
void join_tied(const std::string& where, const std::string& embedding, const std::string& head,
               SavedVocabulary& saved) {
  const auto of_head = saved.values.find(head);
  if (of_head == saved.values.end()) return;
  const auto [place, only_head] = saved.values.emplace(embedding, of_head->second);
  const bool one = only_head || place->second.equal(of_head->second);
  saved.values.erase(head);
  if (one) return;
  throw UserError({where, "one matrix for the embedding and the head, which config.json ties",
                   "two different ones",
                   "the two were untied in training, and the base's config.json does not say so",
                   "name a base with tie_word_embeddings: false"});
}

// Rows that were added are in the file.
void require_rows(const model::WeightSource& source, const std::string& where,
                  const std::vector<std::string>& names, const SavedVocabulary& saved) {
  const std::int64_t own = source.config().vocab_size;
  if (saved.rows <= own) return;
  for (const std::string& name : names) {
    const bool whole = std::find(saved.whole.begin(), saved.whole.end(), name) != saved.whole.end();
    if (whole || saved.values.contains(name)) continue;
    throw UserError({where, "the " + std::to_string(saved.rows - own) + " added rows of " + name + " too",
                     "no such tensor",
                     "the adapter was trained on a model whose vocabulary was extended from " +
                         std::to_string(own) + " to " + std::to_string(saved.rows) +
                         " tokens (resize_token_embeddings), and the file has not all of it",
                     "name the extended model (--model_name_or_path), or save the adapter with PEFT's "
                     "save_embedding_layers=True"});
  }
}

constexpr const char* kTokenizerFile = "tokenizer.json";

// Every token that a tokenizer's files name, in whatever place.
std::set<std::string> tokens_of(const base::fs::path& tokenizer) {
  std::set<std::string> out;
  if (!base::is_folder(tokenizer)) {
    const base::GgufFile file = base::GgufFile::open(tokenizer);
    if (const auto* tokens = file.strings("tokenizer.ggml.tokens"))
      out.insert(tokens->begin(), tokens->end());
    return out;
  }
  const auto read = [&](const char* name) {
    const base::fs::path file = tokenizer / name;
    base::Json json = base::Json::object();
    if (base::exists(file)) json = base::parse_json(base::read_text(file), file.string());
    if (!json.is_object()) json = base::Json::object();  // the tokenizer's reader refuses it
    return json;
  };
  const auto take = [&](const base::Json& tokens) {
    if (!tokens.is_structured()) return;
    for (const base::Json& token : tokens) {
      const base::Json content = token.is_object() ? token.value("content", base::Json()) : token;
      if (content.is_string()) out.insert(content.get<std::string>());
    }
  };
  const base::Json whole = read(kTokenizerFile), config = read("tokenizer_config.json"),
                   more = read("added_tokens.json");
  take(whole.value("added_tokens", base::Json()));
  const base::Json model = whole.value("model", base::Json::object());
  if (model.is_object() && model.contains("vocab") && model["vocab"].is_object()) {
    for (const auto& [token, id] : model["vocab"].items()) out.insert(token);
  }
  take(config);
  for (const char* key : {"added_tokens_decoder", "additional_special_tokens", "extra_special_tokens"})
    take(config.value(key, base::Json()));
  for (const auto& [token, id] : more.items()) out.insert(token);
  return out;
}

// The tokens that an adapter's tokenizer has and the tokenizer `own` has not. `fit`: the model has a row for
// each of them.
struct NewTokens {
  std::vector<std::string> names;
  bool fit = true;
};

NewTokens new_tokens(const base::fs::path& adapter, const base::fs::path& own, std::int64_t rows) {
  const base::fs::path file = adapter / kTokenizerFile;
  if (!base::exists(file)) return {};
  const bool in_folder = base::is_folder(own);
  if (in_folder && !base::exists(own / kTokenizerFile)) return {};
  const std::string text = base::read_text(file);
  if (in_folder && text == base::read_text(own / kTokenizerFile)) return {};
  const base::Json json = base::parse_json(text, file.string());
  const base::Json added = json.is_object() ? json.value("added_tokens", base::Json()) : base::Json();
  NewTokens out;
  std::set<std::string> known;
  if (!added.is_array()) return {};
  for (const base::Json& token : added) {
    const base::Json content = token.is_object() ? token.value("content", base::Json()) : base::Json();
    const base::Json id = token.is_object() ? token.value("id", base::Json()) : base::Json();
    if (!content.is_string() || !id.is_number_integer()) continue;
    if (known.empty()) known = tokens_of(own);
    if (known.contains(content.get<std::string>())) continue;
    out.fit = out.fit && id.get<std::int64_t>() < rows;
    out.names.push_back(content.get<std::string>());
  }
  return out;
}

// "2 tokens of it (<a>, ...)".
std::string told(const NewTokens& tokens) {
  return base::counted(static_cast<std::int64_t>(tokens.names.size()), "token") + " of it (" +
         base::cut_text(tokens.names.front(), 40) + (tokens.names.size() > 1 ? ", ..." : "") + ")";
}

// A tokenizer with tokens of spare rows is saved with the adapter, and nothing of the embedding but the rows
// that were trained. One with tokens that the model has no rows for is not used: training would have saved
// rows that it added.
std::unique_ptr<model::WeightSource> with_tokenizer(std::unique_ptr<model::WeightSource> source,
                                                    const base::fs::path& folder,
                                                    std::vector<std::string>* notes) {
  const std::int64_t rows = source->config().vocab_size;
  const NewTokens tokens = new_tokens(folder, source->tokenizer_path(), rows);
  if (tokens.names.empty()) return source;
  if (notes != nullptr) {
    notes->push_back(folder.string() +
                     (tokens.fit
                          ? ": its tokenizer takes the place of the base's, which lacks " + told(tokens)
                          : ": its tokenizer is not used, since neither the base nor the adapter's file has "
                            "rows for all that the base's lacks, " +
                                told(tokens)));
  }
  if (!tokens.fit) return source;
  return std::make_unique<model::VocabularySource>(std::move(source), rows,
                                                   std::map<std::string, at::Tensor>(), folder);
}

}  // namespace

std::vector<std::string> vocabulary_modules(const model::ModelConfig& model) {
  const model::TensorNames& names = model::names_of(model);
  return {std::string(names.embedding.hf), std::string(names.head.hf)};
}

std::string in_wrapper(const std::string& key, const char* wrapper) {
  const std::size_t dot = key.rfind('.');
  return key.substr(0, dot) + wrapper + key.substr(dot);
}

std::vector<std::string> keys_of_base(const std::string& module, bool whole) {
  const std::string weight = prefixed(module) + ".weight";
  std::vector<std::string> out = {in_wrapper(weight, kBaseCopy), in_wrapper(weight, ".base_layer"),
                                  in_wrapper(weight, ".token_adapter.base_layer")};
  if (!whole) out.push_back(weight);
  return out;
}

std::string key_of_base(const std::string& module, bool adapted, bool whole, bool rows) {
  const std::string weight = prefixed(module) + ".weight";
  if (whole) return in_wrapper(weight, kBaseCopy);
  if (rows) return in_wrapper(weight, ".token_adapter.base_layer");
  return adapted ? in_wrapper(weight, ".base_layer") : weight;
}

void add_vocabulary(const model::WeightSource& source, const StoredAdapter& adapter,
                    std::map<std::string, at::Tensor>& tensors) {
  const std::vector<std::string> modules = vocabulary_modules(source.config());
  for (const std::string& name : source.replaced()) {
    const std::string module = name.substr(0, name.rfind('.'));
    if (adapter.config.score_head && module != modules.front()) continue;
    const bool adapted = std::any_of(adapter.modules.begin(), adapter.modules.end(),
                                     [&](const StoredLora& one) { return one.module == module; });
    const bool rows = module == modules.front() && !adapter.config.token_indices.empty();
    tensors[key_of_base(module, adapted, is_trained_whole(adapter.config, module), rows)] =
        source.read(name, at::kFloat);
  }
}

std::unique_ptr<model::WeightSource> open_base(const base::fs::path& base,
                                               const std::vector<base::fs::path>& adapters,
                                               std::vector<std::string>* notes) {
  std::unique_ptr<model::WeightSource> source = model::open_weights(base);
  bool replaced = false;
  for (const base::fs::path& folder : adapters) {
    const model::ModelConfig& model = source->config();
    std::optional<SavedVocabulary> saved = read_vocabulary(folder, model);
    if (!saved) {
      source = with_tokenizer(std::move(source), folder, notes);
      continue;
    }
    const std::string where = (folder / kWeightsFile).string();
    std::vector<std::string> names;  // of the matrices that the model has
    for (const std::string& module : vocabulary_modules(model)) names.push_back(module + ".weight");
    if (model.tie_word_embeddings) {
      join_tied(where, names[0], names[1], *saved);
      names.pop_back();
    }
    std::erase_if(names, [&](const std::string& name) { return !source->has(name); });
    std::erase_if(saved->values, [&](const auto& one) {
      return !source->has(one.first) || is_own(*source, one.first, one.second);
    });
    const std::int64_t own = model.vocab_size;
    if (saved->rows == own && saved->values.empty()) {
      source = with_tokenizer(std::move(source), folder, notes);
      continue;
    }
    if (replaced) {
      throw UserError({where, "the embedding of the adapter before it", "another one",
                       "the two were trained on models with different vocabularies", "use one of them"});
    }
    require_rows(*source, where, names, *saved);
    const bool resized = saved->rows != own;
    if (notes != nullptr) {
      notes->push_back(folder.string() + ": its embedding takes the place of the base's" +
                       (resized ? ": the vocabulary was changed from " + std::to_string(own) + " to " +
                                      std::to_string(saved->rows) + " tokens"
                                : ", as in PEFT (other rows than the base has)"));
    }
    const NewTokens tokens = new_tokens(folder, source->tokenizer_path(), own);
    const bool has_tokenizer =
        resized ? base::exists(folder / kTokenizerFile) : tokens.fit && !tokens.names.empty();
    source = std::make_unique<model::VocabularySource>(
        std::move(source), saved->rows, std::move(saved->values), has_tokenizer ? folder : base::fs::path());
    replaced = true;
  }
  return source;
}

}  // namespace hone::adapters
