#include "hone/model.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "hone/error.h"
#include "library/parts.h"
#include "ops/machine/host_memory.h"
#include "text/turn_end.h"
#include "train/facts/machine.h"

namespace hone {
namespace {

model::DtypePolicy dtypes_of(Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      return train::dtype_policy(config::Precision::kFloat32);
    case Precision::kAutocast:
      return train::dtype_policy(config::Precision::kAutocast);
    case Precision::kBFloat16:
      return train::dtype_policy(config::Precision::kBFloat16);
  }
  throw base::InternalError({.where = "hone::Model", .found = "an unknown precision"});
}

std::vector<std::int64_t> ends_of(const train::OpenedText& text, const model::ModelConfig& config) {
  std::vector<std::int64_t> out = config.eos_token_ids;
  const auto add = [&](const std::optional<std::int32_t>& id) {
    if (id && *id < config.vocab_size && std::find(out.begin(), out.end(), *id) == out.end())
      out.push_back(*id);
  };
  add(text.tokenizer.eos_id());
  add(text.tokenizer.eot_id());
  if (text.chat_template == nullptr) return out;
  try {
    add(text::turn_end(text.tokenizer, *text.chat_template));
  } catch (const base::UserError&) {
    return out;  // the template takes no question and answer; chat_prompt() will say so
  }
  return out;
}

std::unique_ptr<Model::Parts> open(const std::string& path, const ModelOptions& options) {
  ops::use_host_memory();
  at::set_num_threads(static_cast<int>(train::threads_or_default(options.threads)));
  std::unique_ptr<model::WeightSource> source = model::open_weights(path);
  train::OpenedText text = train::open_text(source->tokenizer_path(), "");
  std::vector<std::int64_t> stop_ids = ends_of(text, source->config());
  model::CausalLm model(*source, dtypes_of(options.precision), model::Storage::kPacked, {}, at::kCPU,
                        /*keep_blocks=*/true);
  return std::make_unique<Model::Parts>(std::move(source), std::move(text), std::move(model),
                                        std::move(stop_ids));
}

}  // namespace

Model::Model(const std::string& path, const ModelOptions& options) : parts_(open(path, options)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

std::vector<std::int32_t> Model::encode(const std::string& text) const {
  return parts_->text.tokenizer.encode(text, /*add_special=*/true).ids;
}

std::string Model::decode(std::span<const std::int32_t> ids) const {
  return parts_->text.tokenizer.decode(ids, /*skip_special=*/true);
}

std::vector<std::int32_t> Model::chat_prompt(const std::vector<Message>& messages) const {
  const train::OpenedText& text = parts_->text;
  if (text.chat_template == nullptr) {
    throw UserError({.where = "hone::Model::chat_prompt",
                     .expected = "a tokenizer with a chat template",
                     .found = parts_->source->path().string() + " has none",
                     .cause = "a base model that was never tuned for conversation",
                     .fix = "write the prompt as a text, for encode()"});
  }
  base::Json turns = base::Json::array();
  for (const Message& one : messages) turns.push_back({{"role", one.role}, {"content", one.content}});
  return text::tokenize_chat(text.tokenizer, *text.chat_template,
                             {.messages = std::move(turns),
                              .tools = {},
                              .template_kwargs = {},
                              .add_generation_prompt = true})
      .ids;
}

const std::vector<std::int64_t>& Model::stop_ids() const {
  return parts_->stop_ids;
}

std::int64_t Model::vocabulary() const {
  return parts_->model.config().vocab_size;
}

std::int64_t Model::context() const {
  return parts_->model.config().max_position_embeddings;
}

}  // namespace hone
