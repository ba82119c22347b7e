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

// A pass of the student. `loss` computes the rows of its head, with d_hidden where it trains.
template <typename Loss>
DivergenceFacts run_student(const model::CausalLm& student, const PolicyPass& pass, const RngKey& key,
                            const PassForm& form, bool trains, const Loss& loss) {
  BatchPass batch(student, pass.batch, key, form, pass.router_weights);
  const OpenedHead opened(student, key.adapters_on, batch.forward(pass.source, trains).detach());
  learn::DivergenceTrained trained;
  if (trains) {
    if (const at::Tensor& head = student.trained_parts().head; head.defined()) trained.weight = head.grad();
    if (opened.own) trained.own = student.token_rows().values().grad();
  }
  learn::DivergenceRows rows = loss(opened.head, trained);
  if (trains) batch.backward(std::move(rows.d_hidden));
  return facts_of(rows);
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
  const OpenedHead of_teacher(*teacher.model, teacher.adapters_on, teacher.hidden);
  return run_student(student, pass, key, form, factor != 0,
                     [&](const learn::DivergenceHead& head, const learn::DivergenceTrained& trained) {
                       return factor == 0 ? learn::divergence(head, of_teacher.head, options)
                                          : learn::divergence_gradient(head, of_teacher.head, options, factor,
                                                                       trained);
                     });
}

DivergenceFacts run_top_k_divergence(const model::CausalLm& student, const learn::TopKTeacher& teacher,
                                     const PolicyPass& pass, const RngKey& key, const PassForm& form,
                                     double temperature, double factor) {
  return run_student(student, pass, key, form, factor != 0,
                     [&](const learn::DivergenceHead& head, const learn::DivergenceTrained& trained) {
                       const learn::TopKTeacher there{.ids = teacher.ids.to(head.hidden.device()),
                                                      .logprobs = teacher.logprobs.to(head.hidden.device())};
                       return factor == 0 ? learn::top_k_divergence(head, there, temperature)
                                          : learn::top_k_gradient(head, there, temperature, factor, trained);
                     });
}

}  // namespace hone::train
