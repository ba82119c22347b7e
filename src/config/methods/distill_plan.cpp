#include <fmt/format.h>

#include <string>

#include "config/methods.h"
#include "config/methods/policy_plan.h"
#include "config/teacher_refusals.h"

namespace hone::config {
namespace {

constexpr const char *kTeacher = "teacher_model_name_or_path", *kTeacherKwargs = "teacher_model_init_kwargs";

// The dtype in teacher_model_init_kwargs; empty: none is set.
std::string teacher_dtype(const Settings& settings) {
  std::string out;
  const base::Json& all = settings.value(kTeacherKwargs);
  if (!all.is_object()) return out;
  for (const auto& [name, value] : all.items()) {
    const bool known = (name == "dtype" || name == "torch_dtype") && value.is_string();
    const std::string word = known ? value.get<std::string>() : "";
    if (word != "float32" && word != "bfloat16") {
      conflict(settings, kTeacherKwargs, "dtype: float32 or dtype: bfloat16",
               fmt::format("{}: {}", name, value.dump()),
               "of from_pretrained's arguments the teacher takes only this one",
               "remove the others; teacher_quantization quantizes the teacher");
    }
    out = word;
  }
  return out;
}

QuantizedBase teacher_form(const Settings& settings) {
  const std::string word = settings.text("teacher_quantization");
  return word == "nf4"    ? QuantizedBase::kNf4
         : word == "fp4"  ? QuantizedBase::kFp4
         : word == "int8" ? QuantizedBase::kInt8
                          : QuantizedBase::kNone;
}

void refuse(const Settings& settings, const TeacherRefusal& why) {
  conflict(settings, why.option, why.expected, why.found, why.cause, why.fix);
}

// A server says log-probabilities of single tokens, at temperature 1.
void check_server(const Plan& plan, const Settings& settings) {
  const DistillPlan& distill = plan.distill;
  const bool top = distill.loss_type == "top_k";
  if (distill.teacher_model_server_url.empty()) {
    if (top) {
      conflict(settings, "loss_type", "a teacher in teacher_model_server_url with loss_type: top_k", "none",
               "a teacher in this process says its whole distribution",
               "take loss_type: divergence, with beta: 0");
    }
    return;
  }
  const std::string& url = distill.teacher_model_server_url;
  const std::size_t host = url.starts_with("http://") ? 7 : url.starts_with("https://") ? 8 : 0;
  if (host == 0 || url.size() == host || url.find_first_of("@?# ") != std::string::npos) {
    conflict(settings, "teacher_model_server_url", "the address of a server: http://127.0.0.1:8000",
             "another text", "", "write http://HOST:PORT, without a user, a key or a query");
  }
  for (const char* const name : {"teacher_quantization", kTeacherKwargs}) {
    if (settings.is_set(name))
      conflict(settings, name, "a teacher in this process", "teacher_model_server_url",
               "the server has loaded its model", fmt::format("remove {}", name));
  }
  if (!plan.ref_model.empty()) {
    conflict(settings, kTeacher, "one teacher", "teacher_model_name_or_path and teacher_model_server_url", "",
             "remove one of the two");
  }
  if (distill.loss_type == "divergence") {
    conflict(settings, "loss_type", "loss_type: top_k or sampled with teacher_model_server_url", "divergence",
             "a server says the probabilities of some tokens, and not of all", "set loss_type: top_k");
  }
  if (distill.loss_temperature.value_or(plan.policy.temperature) != 1) {
    conflict(settings, "loss_temperature", "loss_temperature: 1 with teacher_model_server_url",
             fmt::format("{}", distill.loss_temperature.value_or(plan.policy.temperature)),
             "the server's log-probabilities are those of temperature 1",
             distill.loss_type == "sampled" && !distill.loss_temperature ? "set temperature: 1"
                                                                         : "set loss_temperature: 1");
  }
  if (distill.seq_kd) {
    conflict(settings, "seq_kd", "a teacher in teacher_model_name_or_path with seq_kd", "a server", "",
             "remove seq_kd, or let the teacher be in this process");
  }
}

void refuse_trained_head(const Plan& plan, const Settings& settings) {
  for (const std::string& name : plan.lora_target_modules) {
    if (name.ends_with("lm_head")) refuse(settings, lora_on_head());
  }
}

// Completions of others than the model.
void finish_mix(Plan& plan, const Settings& settings) {
  const DistillPlan& mix = plan.distill;
  if (!plan.policy.replay.empty()) return;  // its file has the completions
  if (mix.lmbda >= 1) {
    if (mix.seq_kd)
      plan.notes.emplace_back("seq_kd: not used, with lmbda 1 the model samples every completion");
    return;
  }
  if (plan.dataset_streaming) {
    conflict(settings, "dataset_streaming", "lmbda: 1 with dataset_streaming",
             fmt::format("lmbda: {}", mix.lmbda), "memory is planned for the longest completion of the data",
             "remove one of the two");
  }
  if (plan.acting.acts()) {
    conflict(settings, "lmbda", "lmbda: 1 with tools or an environment", fmt::format("{}", mix.lmbda),
             "the completions of the data and of the teacher are without tools", "remove one of the two");
  }
  if (mix.loss_type == "sampled") {
    conflict(settings, "lmbda", "lmbda: 1 with loss_type: sampled", fmt::format("{}", mix.lmbda),
             "the estimate is right only where the model itself samples", "remove one of the two");
  }
  // Other spellings of the same folder, dtype or form are seen where the teacher is opened.
  const bool own = plan.ref_model == plan.model_name_or_path && plan.base_adapters.empty() &&
                   !plan.ref_quantized && !plan.ref_precision;
  if (mix.seq_kd && own) refuse(settings, sampling_of_own_teacher());
}

// The options with which tokens are drawn from another distribution than the model's: "top_p, top_k".
std::string truncating_options(const PolicyPlan& policy) {
  std::string out;
  const auto add = [&out](bool set, const char* name) {
    if (set) out += (out.empty() ? "" : ", ") + std::string(name);
  };
  add(policy.top_p < 1, "top_p");
  add(policy.top_k > 0, "top_k");
  add(policy.min_p > 0, "min_p");
  add(policy.repetition_penalty != 1, "repetition_penalty");
  add(policy.min_new_tokens > 0, "min_new_tokens");
  add(!policy.vllm_structured_outputs_regex.empty(), "vllm_structured_outputs_regex");
  return out;
}

// The policy gradient is that of the divergence where tokens are drawn from the distribution in the loss.
void finish_sampled(Plan& plan, const Settings& settings) {
  if (plan.distill.loss_type != "sampled") return;
  const double own = plan.policy.temperature, loss = plan.distill.loss_temperature.value_or(own);
  if (loss != own) {
    conflict(settings, "loss_temperature",
             fmt::format("loss_temperature equal to temperature, {}, with loss_type: sampled", own),
             fmt::format("{}", loss), "the estimate is right only at the temperature of sampling",
             plan.distill.teacher_model_server_url.empty() ? "remove loss_temperature"
                                                           : fmt::format("set temperature: {}", loss));
  }
  const std::string others = truncating_options(plan.policy);
  if (others.empty() || !plan.policy.replay.empty()) return;
  plan.notes.push_back(
      others +
      ": loss_type sampled takes the tokens as drawn from the model's whole distribution, and its "
      "gradient is another one than that of KL(model, teacher)");
}

}  // namespace

Precision precision_of(std::string_view dtype, const Settings& settings) {
  if (dtype != "float32") return Precision::kBFloat16;
  return settings.maybe_flag("bf16").value_or(true) ? Precision::kAutocast : Precision::kFloat32;
}

void finish_distill(Plan& plan, const Settings& settings) {
  PolicyPlan& policy = plan.policy;
  finish_sampling(policy, settings);
  policy.num_generations = policy.num_generations_eval = 1;
  policy.steps_per_generation = plan.accumulation();
  policy.generation_batch_size = sequences_of(settings, 1);
  // TRL's RepeatSampler
  plan.train_sampling_strategy = plan.shuffle_dataset ? RowOrder::kRandom : RowOrder::kSequential;
  plan.dataloader_drop_last = true;
  plan.share_prompt = false;  // a prompt has one completion
  finish_tools(plan, settings);
  check_server(plan, settings);
  if (plan.ref_model.empty() && plan.distill.teacher_model_server_url.empty()) {
    conflict(
        settings, kTeacher, "a teacher in teacher_model_name_or_path", "none", "",
        "name a larger model with the same vocabulary; the model itself is the teacher without its adapter");
  }
  if (plan.ref_model == plan.model_name_or_path && plan.init_lora_weights == LoraInit::kPissa) {
    refuse(settings, pissa_of_own_teacher());
  }
  refuse_trained_head(plan, settings);
  // The model itself, unless it is to be another form of it.
  const QuantizedBase form = teacher_form(settings);
  if (form != QuantizedBase::kNone || plan.ref_model != plan.model_name_or_path) plan.ref_quantized = form;
  if (const std::string dtype = teacher_dtype(settings); !dtype.empty())
    plan.ref_precision = precision_of(dtype, settings);
  finish_mix(plan, settings);
  finish_sampled(plan, settings);
  if (!policy.replay.empty()) check_replay(settings);
}

}  // namespace hone::config
