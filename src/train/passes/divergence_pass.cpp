#include "train/passes/divergence_pass.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <optional>
#include <utility>

namespace hone::train {

namespace {

// A model's head as the loss takes it, with what its pointers point to.
struct OpenedHead {
  OpenedHead(const model::CausalLm& model, bool adapters_on, at::Tensor hidden)
      : own(model.head_rows(adapters_on)) {
    head = {.hidden = std::move(hidden),
            .weight = model.head(adapters_on),
            .own = own ? &*own : nullptr,
            .soft_cap = model.config().logits_soft_cap};
  }
  OpenedHead(const OpenedHead&) = delete;
  OpenedHead& operator=(const OpenedHead&) = delete;

  std::optional<ops::HeadRows> own;
  learn::DivergenceHead head;
};

DivergenceFacts facts_of(const learn::DivergenceRows& rows) {
  return {.divergence = rows.divergence.sum(at::kDouble).item<double>(),
          .entropy = rows.entropy.sum(at::kDouble).item<double>(),
          .tokens = rows.divergence.size(0)};
}

}  // namespace

TeacherRows teacher_rows(const model::CausalLm& teacher, bool adapters_on, const PolicyPass& pass,
                         const PassForm& form) {
  const at::NoGradGuard no_grad;
  const RngKey key{.adapters_on = adapters_on};
  BatchPass batch(teacher, pass.batch, key, form, pass.router_weights);
  return {.model = &teacher,
          .adapters_on = adapters_on,
          .hidden = batch.forward(pass.source, /*trains=*/false).detach()};
}

std::int64_t teacher_rows_bytes(const model::CausalLm& teacher, std::int64_t n) {
  const at::ScalarType residual = teacher.dtypes().residual;
  return n * teacher.config().hidden_size * static_cast<std::int64_t>(c10::elementSize(residual)) +
         learn::divergence_bytes(n, teacher.config().vocab_size, residual);
}

DivergenceFacts run_divergence(const model::CausalLm& student, const TeacherRows& teacher,
                               const PolicyPass& pass, const RngKey& key, const PassForm& form,
                               const learn::DivergenceOptions& options, double factor) {
  const bool trains = factor != 0;
  const OpenedHead of_teacher(*teacher.model, teacher.adapters_on, teacher.hidden);
  BatchPass batch(student, pass.batch, key, form, pass.router_weights);
  const OpenedHead of_student(student, key.adapters_on, batch.forward(pass.source, trains).detach());
  if (!trains) return facts_of(learn::divergence(of_student.head, of_teacher.head, options));
  learn::DivergenceTrained trained;
  if (const at::Tensor& head = student.trained_parts().head; head.defined()) trained.weight = head.grad();
  if (of_student.own) trained.own = student.token_rows().values().grad();
  learn::DivergenceRows rows =
      learn::divergence_gradient(of_student.head, of_teacher.head, options, factor, trained);
  batch.backward(std::move(rows.d_hidden));
  return facts_of(rows);
}

}  // namespace hone::train
