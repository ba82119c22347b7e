#include "adapters/server_rules.h"

#include <algorithm>
#include <array>
#include <set>

#include "adapters/adapter_file.h"
#include "adapters/peft_files.h"
#include "base/json.h"
#include "base/strings/plural.h"

namespace hone::adapters {
namespace {

using base::Json;

// What a rule looks at: the kind of a tensor, then what the adapter's options or its other tensors say.
enum class Trait {
  kLinear,         // LoRA of a linear of the layers
  kExpert,         // LoRA of stacked experts, PEFT's target_parameters
  kHeadLora,       // LoRA of the head
  kEmbeddingLora,  // LoRA of the embedding
  kMagnitude,      // of DoRA
  kTokenRows,      // trained rows of the embedding
  kWholeMatrix,    // head or embedding trained in full
  kWholeNorm,      // a norm trained in full
  kBias,           // a trained bias
  kScore,          // the head of a reward model
  kOtherKey,       // none of these
  // of the adapter
  kRsLora,
  kOwnAlphas,
  kRank,           // above kVllmRank
  kRegexTargets,   // target_modules is one text
  kWrappedKeys,    // the base is the text model inside another, or the keys say so
  kOneExpertSide,  // gate_up without down, or down without gate_up
  kOtherFamily,    // neither Llama, Mistral nor Gemma 2
};
constexpr std::size_t kKinds = static_cast<std::size_t>(Trait::kOtherKey) + 1;

constexpr std::array<std::string_view, kKinds> kKindNames = {"LoRA of linears",
                                                             "LoRA of stacked experts",
                                                             "LoRA of the head",
                                                             "LoRA of the embedding",
                                                             "magnitudes of DoRA",
                                                             "trained rows of the embedding",
                                                             "head or embedding trained in full",
                                                             "norms trained in full",
                                                             "trained biases",
                                                             "head of a reward model",
                                                             "tensors of another kind"};

struct Rule {
  Server server;
  Trait trait;
  KeyFate fate;
  std::string_view why, fix;
};

constexpr std::string_view kMerge = "merge it (hone merge), and serve the merged model";
constexpr std::string_view kTrainFewer = "train it as LoRA, or merge it (hone merge)";
constexpr std::string_view kConvert =
    "write the file with hone export --adapter_only, which has the true scale";

// The rule of a kind is of tensors of that kind; the rule of an option is of all LoRA tensors, but kOneExpertSide, which
// is of experts.
constexpr Rule kRules[] = {
    {Server::kHone, Trait::kOtherKey, KeyFate::kRefused, "hone knows no place for it", kMerge},
    {Server::kHone, Trait::kScore, KeyFate::kRefused, "a reward model is not served", "score with hone grpo"},
    {Server::kHone, Trait::kTokenRows, KeyFate::kUnsure, "served alone, not beside other adapters",
     "hone serve MODEL --adapter_name_or_path FOLDER"},
    {Server::kHone, Trait::kWholeMatrix, KeyFate::kUnsure, "served alone, not beside other adapters",
     "hone serve MODEL --adapter_name_or_path FOLDER"},
    {Server::kHone, Trait::kWholeNorm, KeyFate::kUnsure, "served alone, not beside other adapters",
     "hone serve MODEL --adapter_name_or_path FOLDER"},
    {Server::kHone, Trait::kExpert, KeyFate::kUnsure, "served alone, not beside other adapters",
     "hone serve MODEL --adapter_name_or_path FOLDER"},

    {Server::kVllm, Trait::kMagnitude, KeyFate::kRefused, "vLLM has no DoRA", kMerge},
    {Server::kVllm, Trait::kBias, KeyFate::kRefused, "vLLM takes no biases", kMerge},
    {Server::kVllm, Trait::kTokenRows, KeyFate::kRefused, "vLLM takes no rows of the embedding", kMerge},
    {Server::kVllm, Trait::kWholeMatrix, KeyFate::kRefused, "vLLM takes modules_to_save of classifiers alone",
     kTrainFewer},
    {Server::kVllm, Trait::kWholeNorm, KeyFate::kRefused, "vLLM takes modules_to_save of classifiers alone",
     kTrainFewer},
    {Server::kVllm, Trait::kExpert, KeyFate::kDropped,
     "stacked experts are dropped in silence, or their shape ends the engine", kMerge},
    {Server::kVllm, Trait::kOtherKey, KeyFate::kUnsure, "vLLM looks at the last word of a name alone",
     kMerge},
    {Server::kVllm, Trait::kRank, KeyFate::kRefused,
     "above --max-lora-rank, 16 unless it is set; it is 1, 8, 16, 32, 64, 128, 256, 320 or 512",
     "start vLLM with --max-lora-rank"},
    {Server::kVllm, Trait::kWrappedKeys, KeyFate::kUnsure,
     "names of the text model and of the whole one differ by language_model: where they do not fit, vLLM loads the "
     "adapter, answers 200 and applies nothing",
     "serve the class that was trained, or merge it (hone merge)"},

    {Server::kSglang, Trait::kMagnitude, KeyFate::kRefused, "SGLang has no DoRA", kMerge},
    {Server::kSglang, Trait::kTokenRows, KeyFate::kRefused, "SGLang takes no added tokens", kMerge},
    {Server::kSglang, Trait::kWholeMatrix, KeyFate::kDropped,
     "trained head and embedding are skipped, with a debug line", kTrainFewer},
    {Server::kSglang, Trait::kWholeNorm, KeyFate::kDropped, "it matches no target of SGLang's", kTrainFewer},
    {Server::kSglang, Trait::kBias, KeyFate::kDropped, "it matches no target of SGLang's", kMerge},
    {Server::kSglang, Trait::kOtherKey, KeyFate::kDropped, "it matches no target of SGLang's", kMerge},
    {Server::kSglang, Trait::kRsLora, KeyFate::kScaledWrongly,
     "use_rslora is not read: the scale is alpha / r, sqrt(r) times too small",
     "write lora_alpha * sqrt(r) as lora_alpha, with use_rslora false"},
    {Server::kSglang, Trait::kOwnAlphas, KeyFate::kUnsure, "its scale is lora_alpha / r of the whole adapter",
     kMerge},
    {Server::kSglang, Trait::kRegexTargets, KeyFate::kRefused, "target_modules has to be a list",
     "write the modules' names as a list into adapter_config.json"},
    {Server::kSglang, Trait::kOneExpertSide, KeyFate::kDropped,
     "experts are wrapped where gate_up and down are both targets", "train both, or merge it (hone merge)"},

    {Server::kLlamaCpp, Trait::kMagnitude, KeyFate::kRefused, "llama.cpp has no DoRA", kMerge},
    {Server::kLlamaCpp, Trait::kTokenRows, KeyFate::kRefused, "the format has no rows of the embedding",
     kMerge},
    {Server::kLlamaCpp, Trait::kWholeMatrix, KeyFate::kRefused, "the format has no full head or embedding",
     kTrainFewer},
    {Server::kLlamaCpp, Trait::kWholeNorm, KeyFate::kDropped, "trained norms are skipped when it is loaded",
     kTrainFewer},
    {Server::kLlamaCpp, Trait::kOtherKey, KeyFate::kRefused, "a tensor that the base has not is an error",
     kMerge},
    {Server::kLlamaCpp, Trait::kRsLora, KeyFate::kScaledWrongly,
     "convert_lora_to_gguf.py writes lora_alpha without rsLoRA: sqrt(r) times too small", kConvert},
    {Server::kLlamaCpp, Trait::kOwnAlphas, KeyFate::kScaledWrongly,
     "convert_lora_to_gguf.py does not read alpha_pattern", kConvert},

    {Server::kOllama, Trait::kOtherFamily, KeyFate::kRefused,
     "adapters are of Llama, Mistral and Gemma 2 alone", "merge it, and write a GGUF with hone export"},
    {Server::kOllama, Trait::kRsLora, KeyFate::kScaledWrongly,
     "use_rslora is not read: the scale is alpha / r, sqrt(r) times too small",
     "write lora_alpha * sqrt(r) as lora_alpha, with use_rslora false"},
    {Server::kOllama, Trait::kOwnAlphas, KeyFate::kUnsure, "not known to be read", kMerge},
    {Server::kOllama, Trait::kMagnitude, KeyFate::kUnsure, "not known to be read", kMerge},
    {Server::kOllama, Trait::kWholeMatrix, KeyFate::kUnsure, "not known to be read", kTrainFewer},
    {Server::kOllama, Trait::kWholeNorm, KeyFate::kUnsure, "not known to be read", kTrainFewer},
    {Server::kOllama, Trait::kTokenRows, KeyFate::kUnsure, "not known to be read", kMerge},
    {Server::kOllama, Trait::kOtherKey, KeyFate::kUnsure, "not known to be read", kMerge},
};

constexpr std::int64_t kVllmRank = 16;  // --max-lora-rank, where it is not set

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

Trait kind_of(std::string_view key) {
  if (key.ends_with("token_adapter.trainable_tokens_delta")) return Trait::kTokenRows;
  if (has(key, ".lora_magnitude_vector")) return Trait::kMagnitude;
  if (has(key, ".lora_embedding_")) return Trait::kEmbeddingLora;
  if (has(key, ".lora_A.") || has(key, ".lora_B.")) {
    if (has(key, ".base_layer.") || has(key, ".experts.lora_")) return Trait::kExpert;
    return has(key, "lm_head.") ? Trait::kHeadLora : Trait::kLinear;
  }
  if (key == kScoreKey) return Trait::kScore;
  if (key.ends_with(".bias")) return Trait::kBias;
  if (key.ends_with("lm_head.weight") || key.ends_with("embed_tokens.weight")) return Trait::kWholeMatrix;
  return has(key, "norm") && key.ends_with(".weight") ? Trait::kWholeNorm : Trait::kOtherKey;
}

Json member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? Json() : *found;
}

bool is_full(const Json& value) {
  return (value.is_object() || value.is_array()) && !value.empty();
}

bool has_usual_rank(const Json& config) {
  std::int64_t most = 0;
  const auto add = [&most](const Json& one) {
    if (one.is_number_integer()) most = std::max(most, one.get<std::int64_t>());
  };
  add(member(config, "r"));
  if (const Json pattern = member(config, "rank_pattern"); pattern.is_object()) {
    for (const auto& [name, rank] : pattern.items()) add(rank);
  }
  return most <= kVllmRank;
}

// Ollama has adapters of these alone, and says so.
bool is_of_ollama(model::Family family) {
  using model::Family;
  return family == Family::kLlama || family == Family::kMistral || family == Family::kGemma2;
}

// Of the adapter as a whole.
std::set<Trait> traits_of(const Json& config, const AdapterFile& file, const model::ModelConfig& model) {
  std::set<Trait> out;
  const Json rslora = member(config, "use_rslora"), targets = member(config, "target_modules");
  if (rslora.is_boolean() && rslora.get<bool>()) out.insert(Trait::kRsLora);
  if (is_full(member(config, "alpha_pattern"))) out.insert(Trait::kOwnAlphas);
  if (!has_usual_rank(config)) out.insert(Trait::kRank);
  if (targets.is_string()) out.insert(Trait::kRegexTargets);
  bool gate_up = false, down = false, wrapped = model.wrapped;
  for (const auto& [key, tensor] : file.tensors()) wrapped = wrapped || has(key, "language_model.");
  if (const Json parameters = member(config, "target_parameters"); parameters.is_array()) {
    for (const Json& one : parameters) {
      if (!one.is_string()) continue;
      gate_up = gate_up || has(one.get<std::string>(), "gate_up");
      down = down || has(one.get<std::string>(), "down");
    }
  }
  if (wrapped) out.insert(Trait::kWrappedKeys);
  if (gate_up != down) out.insert(Trait::kOneExpertSide);
  if (!is_of_ollama(model.family)) out.insert(Trait::kOtherFamily);
  return out;
}

bool is_silent(KeyFate fate) {
  return fate == KeyFate::kDropped || fate == KeyFate::kScaledWrongly;
}

// The worst rule of a tensor, with `silent` of those that the server says nothing of; null: it is applied.
const Rule* rule_of(Server server, Trait kind, const std::set<Trait>& whole, bool silent) {
  const bool lora = kind <= Trait::kEmbeddingLora;
  const Rule* worst = nullptr;
  for (const Rule& rule : kRules) {
    if (rule.server != server || (silent && !is_silent(rule.fate))) continue;
    const bool of_kind = static_cast<std::size_t>(rule.trait) < kKinds;
    const bool of_experts = rule.trait == Trait::kOneExpertSide;
    const bool meets = of_kind ? rule.trait == kind
                               : whole.contains(rule.trait) && (of_experts ? kind == Trait::kExpert : lora);
    if (meets && (worst == nullptr || rule.fate > worst->fate)) worst = &rule;
  }
  return worst;
}

constexpr std::array<std::string_view, 6> kServers = {"hone serve",   "vLLM",   "SGLang",
                                                      "llama-server", "Ollama", "another server"};
constexpr std::array<std::string_view, 5> kFates = {"applied", "not sure", "scaled wrongly", "dropped",
                                                    "refused"};

}  // namespace

std::string_view server_name(Server server) {
  return kServers.at(static_cast<std::size_t>(server));
}

const std::vector<std::string>& server_words() {
  static const std::vector<std::string> words = {"hone", "vllm", "sglang", "llama-server", "ollama", "other"};
  return words;
}

std::optional<Server> server_of_word(std::string_view word) {
  const auto found = std::find(server_words().begin(), server_words().end(), word);
  if (found == server_words().end()) return std::nullopt;
  return static_cast<Server>(found - server_words().begin());
}

std::string_view fate_name(KeyFate fate) {
  return kFates.at(static_cast<std::size_t>(fate));
}

static std::vector<KeyGroup> groups_of(const base::fs::path& folder, const model::ModelConfig& model,
                                       Server server, bool silent) {
  const AdapterFile file(folder);
  const base::fs::path path = folder / kConfigFile;
  Json config = base::parse_json(base::read_text(path), path.string());
  if (!config.is_object()) config = Json::object();
  const std::set<Trait> whole = traits_of(config, file, model);
  std::vector<KeyGroup> out;
  for (const auto& [key, tensor] : file.tensors()) {
    const Trait kind = kind_of(key);
    const Rule* const rule = rule_of(server, kind, whole, silent);
    KeyGroup one{.fate = rule == nullptr ? KeyFate::kApplied : rule->fate,
                 .what = std::string(kKindNames.at(static_cast<std::size_t>(kind))),
                 .why = std::string(rule == nullptr ? "" : rule->why),
                 .fix = std::string(rule == nullptr ? "" : rule->fix),
                 .keys = 1,
                 .example = tensor->name};
    if (rule == nullptr && server == Server::kOther) {
      one.fate = KeyFate::kUnsure;
      one.why = "hone has no rules of this server", one.fix = "say which it is with --server";
    }
    const auto same = std::find_if(out.begin(), out.end(), [&](const KeyGroup& other) {
      return other.what == one.what && other.fate == one.fate && other.why == one.why;
    });
    if (same == out.end()) {
      out.push_back(std::move(one));
    } else {
      ++same->keys;
    }
  }
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.fate > b.fate; });
  return out;
}

std::vector<KeyGroup> keys_on_server(const base::fs::path& folder, const model::ModelConfig& model,
                                     Server server) {
  return groups_of(folder, model, server, /*silent=*/false);
}

std::vector<ServerLoss> silent_losses(const base::fs::path& folder, const model::ModelConfig* base) {
  std::vector<ServerLoss> out;
  for (const Server server : {Server::kVllm, Server::kSglang, Server::kLlamaCpp, Server::kOllama}) {
    const model::ModelConfig model = base == nullptr ? model::ModelConfig() : *base;
    if (server == Server::kOllama && (base == nullptr || !is_of_ollama(base->family))) continue;
    ServerLoss loss{.server = server};
    for (KeyGroup& one : groups_of(folder, model, server, /*silent=*/true))
      if (is_silent(one.fate)) loss.groups.push_back(std::move(one));
    if (!loss.groups.empty()) out.push_back(std::move(loss));
  }
  return out;
}

std::string told_loss(const ServerLoss& loss) {
  const KeyGroup& worst = loss.groups.front();
  std::string out = std::string(server_name(loss.server)) +
                    (worst.fate == KeyFate::kDropped ? " drops " : " scales wrongly ") +
                    base::counted(worst.keys, "tensor") + " (" + worst.what;
  for (std::size_t i = 1; i < loss.groups.size(); ++i) out += ", " + loss.groups[i].what;
  return out + "): " + worst.why + "; do: " + worst.fix;
}

}  // namespace hone::adapters
