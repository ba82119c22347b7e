// These functions word what distillation refuses. Options say it, or only the opened model does: an adapter that is
// continued, or a pattern of target modules, may reach the head too, and two paths may be one folder.
#pragma once

#include <string>

namespace hone::config {

struct TeacherRefusal {
  const char *option, *expected, *found, *cause, *fix;
};

// As TRL 1.16's DistillationTrainer, whose loss too reads the head's own weight.
constexpr TeacherRefusal lora_on_head() {
  return {.option = "lora_target_modules",
          .expected = "no LoRA on lm_head",
          .found = "LoRA on lm_head",
          .cause = "the divergence is computed from the head's own matrix, in tiles",
          .fix = "train an adapter without lm_head; lora_modules_to_save can train the head"};
}

constexpr TeacherRefusal pissa_of_own_teacher() {
  return {.option = "init_lora_weights",
          .expected = "another init_lora_weights where the model is its own teacher",
          .found = "pissa",
          .cause = "PiSSA takes its adapter's first values out of the base, which would be the teacher",
          .fix = "remove init_lora_weights, or name a copy of the model as the teacher"};
}

constexpr TeacherRefusal sampling_of_own_teacher() {
  return {.option = "seq_kd",
          .expected = "a teacher that is another model, or another form of the model",
          .found = "the model itself",
          .cause = "the model without its adapter would have to sample while the adapter is trained",
          .fix = "name a copy of the model as the teacher, or set teacher_quantization"};
}

}  // namespace hone::config
