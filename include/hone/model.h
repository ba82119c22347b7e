// A language model with its tokenizer, in memory.
//
//   hone::Model model("models/base");
//   const std::vector<std::int32_t> prompt = model.chat_prompt({{"user", "12 + 30 = ?"}});
//
// A model is used by one thread at a time, and so is everything that is made of it. It computes with the
// threads that ModelOptions says, on the CPU.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace hone {

enum class Precision {
  kFloat32,   // weights and products in fp32
  kAutocast,  // frozen weights and products in bf16, everything else in fp32
  kBFloat16,  // weights in bf16; norms, softmax and loss in fp32
};

struct ModelOptions {
  Precision precision = Precision::kFloat32;
  int threads = 0;  // of all models of this process; 0: the processors that it may use
};

// A turn of a conversation.
struct Message {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

class Model {
 public:
  // Reads a folder of Hugging Face's or a .gguf file. UserError for a path, a family or a tensor that does
  // not fit.
  explicit Model(const std::string& path, const ModelOptions& options = {});
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  // The ids of a text, with what the tokenizer adds to it (a token at the beginning, for some families).
  std::vector<std::int32_t> encode(const std::string& text) const;
  // The text of these ids, without special tokens.
  std::string decode(std::span<const std::int32_t> ids) const;
  // The conversation as the chat template renders it, up to where the assistant begins. UserError without a
  // template.
  std::vector<std::int32_t> chat_prompt(const std::vector<Message>& messages) const;
  // Where a completion ends: the end of sequence and the end of a turn.
  const std::vector<std::int64_t>& stop_ids() const;

  std::int64_t vocabulary() const;  // ids are below it
  std::int64_t context() const;     // the most tokens of one sequence; 0: not limited

  struct Parts;  // of the implementation
  Parts& parts() const { return *parts_; }

 private:
  std::unique_ptr<Parts> parts_;
};

}  // namespace hone
