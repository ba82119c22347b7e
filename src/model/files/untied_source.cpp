#include "model/files/untied_source.h"

#include "model/config/families.h"

namespace hone::model {

UntiedSource::UntiedSource(std::unique_ptr<WeightSource> tied)
    : tied_(std::move(tied)), config_(tied_->config()) {
  const TensorNames& names = names_of(config_);
  head_ = std::string(names.head.hf) + ".weight";
  embedding_ = std::string(names.embedding.hf) + ".weight";
  config_.tie_word_embeddings = false;
  config_.json["tie_word_embeddings"] = false;
  if (config_.wrapped) config_.json.at("text_config")["tie_word_embeddings"] = false;
}

std::vector<std::string> UntiedSource::names() const {
  std::vector<std::string> out = tied_->names();
  std::erase(out, head_);
  out.push_back(head_);
  return out;
}

}  // namespace hone::model
