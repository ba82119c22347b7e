#include "train/opening/open_model.h"

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/path_kind.h"
#include "base/gguf/gguf.h"
#include "data/forms/system_turn.h"
#include "ops/machine/cuda.h"
#include "text/clone_template.h"
#include "text/tokenizer_files.h"
#include "text/training_template.h"

namespace hone::train {

namespace {

text::Tokenizer open_tokenizer(const base::fs::path& model) {
  if (base::fs::is_directory(model)) return text::Tokenizer::from_folder(model);
  return text::Tokenizer::from_gguf(base::GgufFile::open(model));
}

// The tokenizer's template, which comes from `origin`.
void open_template(const std::string& origin, OpenedText& out) {
  const text::ChatTemplates& templates = out.tokenizer.chat_templates();
  if (!templates.main && templates.named.empty()) return;
  out.chat_template =
      std::make_unique<text::ChatTemplate>(templates, out.tokenizer.special(), "chat template of " + origin);
}

}  // namespace

OpenedText open_text(const base::fs::path& model, const std::string& chat_template_path) {
  OpenedText out{.tokenizer = open_tokenizer(model), .chat_template = nullptr};
  if (base::is_folder(chat_template_path)) {
    out.added = text::clone_chat_template(chat_template_path, out.tokenizer);
  } else if (!chat_template_path.empty()) {
    out.tokenizer.set_chat_template(text::with_python_lines(base::read_text(chat_template_path)));
  }
  open_template(chat_template_path.empty() ? model.string() : chat_template_path, out);
  return out;
}

OpenedText open_text(const config::Plan& plan, const base::fs::path& tokenizer) {
  const bool other = !plan.tokenizer_name_or_path.empty();
  const std::string model = other               ? plan.tokenizer_name_or_path
                            : tokenizer.empty() ? plan.model_name_or_path
                                                : tokenizer.string();
  OpenedText out = open_text(model, plan.chat_template_path);
  if (plan.chat_template.empty() && plan.eos_token.empty()) return out;
  if (!plan.chat_template.empty()) out.tokenizer.set_chat_template(plan.chat_template);
  if (!plan.eos_token.empty()) {
    // TRL sets eos_token first, and then that of a folder.
    std::optional<std::string> of_folder;
    if (base::is_folder(plan.chat_template_path)) of_folder = out.tokenizer.special().eos;
    out.tokenizer.set_eos(plan.eos_token);
    if (of_folder) out.tokenizer.set_eos(*of_folder);
  }
  // Templates read the special tokens.
  open_template(!plan.chat_template.empty()       ? "option chat_template"
                : plan.chat_template_path.empty() ? model
                                                  : plan.chat_template_path,
                out);
  return out;
}

std::unique_ptr<text::ChatTemplate> open_training_template(const config::Plan& plan, const OpenedText& opened,
                                                           std::vector<std::string>& notes) {
  const auto& own = opened.tokenizer.chat_template();
  if (!plan.assistant_only_loss || !own || opened.chat_template->has_generation_tag()) return nullptr;
  const auto training = text::training_template(*own);
  if (!training) return nullptr;  // data/forms/tokenize.h says what is missing
  notes.push_back("chat template: TRL's training form of " + training->family +
                  "'s, which marks the assistant's tokens (assistant_only_loss)");
  return std::make_unique<text::ChatTemplate>(training->source, opened.tokenizer.special(),
                                              "training form of the chat template of " + training->family);
}

base::RowFiles rows_for(const text::Tokenizer& tokenizer, const config::Plan& plan, base::RowFiles rows) {
  const auto& source = tokenizer.chat_template();
  rows.empty_system_turn = plan.auto_insert_empty_system_msg && source && data::knows_system_turns(*source);
  return rows;
}

at::Device device(const config::MachinePlan& plan) {
  return ops::open_device(plan.device);
}

model::DtypePolicy dtype_policy(config::Precision precision) {
  switch (precision) {
    case config::Precision::kFloat32:
      return {.linear = at::kFloat, .residual = at::kFloat};
    case config::Precision::kAutocast:
      return {.linear = at::kBFloat16, .residual = at::kFloat};
    case config::Precision::kBFloat16:
      return {.linear = at::kBFloat16, .residual = at::kBFloat16};
  }
  throw base::InternalError({.where = "dtype_policy", .expected = "a known precision", .found = "another"});
}

model::DtypePolicy dtype_policy(const config::ModelPlan& plan) {
  model::DtypePolicy out = dtype_policy(plan.precision);
  out.float_head = plan.cast_lm_head_to_fp32;
  return out;
}

model::Quantize quantize(config::QuantizedBase base, bool nested, bool experts) {
  switch (base) {
    case config::QuantizedBase::kNone:
      return std::nullopt;
    case config::QuantizedBase::kNf4:
      return {{.type = ops::QuantType::kNf4, .nested = nested}, experts};
    case config::QuantizedBase::kFp4:
      return {{.type = ops::QuantType::kFp4, .nested = nested}, experts};
    case config::QuantizedBase::kInt8:
      return {{.type = ops::QuantType::kInt8}, experts};
  }
  throw base::InternalError({.where = "quantize", .expected = "a known base", .found = "another"});
}

model::Quantize quantize(const config::ModelPlan& plan) {
  return quantize(plan.quantized_base, plan.use_bnb_nested_quant, plan.quantize_moe_experts);
}

// transformers keeps the checkpoint's own quantization as well.
std::optional<std::string> quantized_note(const config::ModelPlan& plan, const model::CausalLm& model) {
  const model::Quantize asked = quantize(plan), found = model.quantized();
  if (asked && asked.experts && model.config().experts.count == 0)
    return "quantize_moe_experts: has no effect, this model has no experts";
  if (!asked || asked.scheme == found.scheme) return std::nullopt;
  return "the checkpoint is already quantized (" + ops::describe(*found) +
         "), and stays so: " + ops::describe(*asked) + " was asked for";
}

std::uint64_t plan_seed(const config::BatchPlan& plan) {
  return static_cast<std::uint64_t>(plan.seed);
}

}  // namespace hone::train
