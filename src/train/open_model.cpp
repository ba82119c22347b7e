#include "train/open_model.h"

#include "base/error.h"
#include "base/file.h"
#include "base/gguf.h"

namespace hone::train {

namespace {

text::Tokenizer open_tokenizer(const base::fs::path& model) {
  if (base::fs::is_directory(model)) return text::Tokenizer::from_folder(model);
  return text::Tokenizer::from_gguf(base::GgufFile::open(model));
}

}  // namespace

OpenedText open_text(const base::fs::path& model, const std::string& chat_template_path) {
  OpenedText out{.tokenizer = open_tokenizer(model), .chat_template = nullptr};
  if (!chat_template_path.empty()) {
    out.tokenizer.set_chat_template(base::read_text(chat_template_path));
  }
  if (const auto& source = out.tokenizer.chat_template()) {
    const std::string where = chat_template_path.empty() ? model.string() : chat_template_path;
    out.chat_template =
        std::make_unique<text::ChatTemplate>(*source, out.tokenizer.special(), "chat template of " + where);
  }
  return out;
}

OpenedText open_text(const config::Plan& plan) {
  OpenedText out = open_text(plan.model_name_or_path, plan.chat_template_path);
  if (!plan.eos_token.empty()) out.tokenizer.set_eos(plan.eos_token);
  return out;
}

model::Numbers numbers(config::Precision precision) {
  switch (precision) {
    case config::Precision::kFloat32:
      return {.linear = at::kFloat, .residual = at::kFloat};
    case config::Precision::kAutocast:
      return {.linear = at::kBFloat16, .residual = at::kFloat};
    case config::Precision::kBFloat16:
      return {.linear = at::kBFloat16, .residual = at::kBFloat16};
  }
  throw base::InternalError({.where = "numbers", .expected = "a known precision", .found = "another"});
}

model::Quantise quantise(config::QuantisedBase base, bool nested) {
  switch (base) {
    case config::QuantisedBase::kNone:
      return std::nullopt;
    case config::QuantisedBase::kNf4:
      return ops::QuantScheme{.type = ops::QuantType::kNf4, .nested = nested};
    case config::QuantisedBase::kFp4:
      return ops::QuantScheme{.type = ops::QuantType::kFp4, .nested = nested};
    case config::QuantisedBase::kInt8:
      return ops::QuantScheme{.type = ops::QuantType::kInt8};
  }
  throw base::InternalError({.where = "quantise", .expected = "a known base", .found = "another"});
}

model::Quantise quantise(const config::Plan& plan) {
  return quantise(plan.quantised_base, plan.use_bnb_nested_quant);
}

// transformers keeps the checkpoint's own quantisation as well.
std::optional<std::string> quantised_note(const config::Plan& plan, const model::CausalLm& model) {
  const model::Quantise asked = quantise(plan), found = model.quantised();
  if (!asked || asked == found) return std::nullopt;
  return "the checkpoint is quantised already (" + ops::words_of(*found) +
         "), and stays so: " + ops::words_of(*asked) + " was asked for";
}

std::uint64_t plan_seed(const config::Plan& plan) {
  return static_cast<std::uint64_t>(plan.seed);
}

}  // namespace hone::train
