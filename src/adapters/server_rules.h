// Servers apply the tensors of an adapter, drop them, refuse them or scale them wrongly. The rules are data.
//
// The rules are of vLLM 0.32, SGLang 0.5.23, llama.cpp with its convert_lora_to_gguf.py, Ollama and hone, as their sources
// read. They need no request: a folder and the base's family are enough. What a server then does is measured
// (commands/verify).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/file.h"
#include "model/config/model_config.h"

namespace hone::adapters {

enum class Server { kHone, kVllm, kSglang, kLlamaCpp, kOllama, kOther };
std::string_view server_name(Server server);  // "llama-server"
// By the word of an option: hone, vllm, sglang, llama-server, ollama, other. Nothing: another word.
std::optional<Server> server_of_word(std::string_view word);
// The words that server_of_word takes.
const std::vector<std::string>& server_words();

// From the best to the worst; the worst rule of a tensor is what happens to it.
enum class KeyFate { kApplied, kUnsure, kScaledWrongly, kDropped, kRefused };
std::string_view fate_name(KeyFate fate);  // "scaled wrongly"

// Tensors of one kind with one fate.
struct KeyGroup {
  KeyFate fate = KeyFate::kApplied;
  std::string what;          // "LoRA of linears"
  std::string why, fix;      // empty: applied
  std::int64_t keys = 0;     // tensors of the file
  std::string example = {};  // one of them, as the file has it
};

// The tensors of the adapter in `folder` on a base of `model`, the worst first. Options that hone cannot read are no error
// here. UserError for a folder without an adapter, or with a damaged one.
std::vector<KeyGroup> keys_on_server(const base::fs::path& folder, const model::ModelConfig& model,
                                     Server server);

// Lists what a server drops or scales wrongly of an adapter, without an error.
struct ServerLoss {
  Server server = Server::kOther;
  std::vector<KeyGroup> groups;  // the worst first, never empty
};

// Lists those of vLLM, SGLang, llama-server and Ollama that are known to lose a part of the adapter in `folder`, also where a
// flag has to be set first (--max-lora-rank). `base`: null where it is not known; then Ollama, which refuses most families,
// is not asked. UserError as above.
std::vector<ServerLoss> silent_losses(const base::fs::path& folder, const model::ModelConfig* base = nullptr);
// "SGLang scales wrongly 14 tensors (LoRA of linears): use_rslora is not read: ...; do: ..."
std::string told_loss(const ServerLoss& loss);

}  // namespace hone::adapters
