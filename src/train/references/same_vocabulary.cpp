#include "train/references/same_vocabulary.h"

#include <algorithm>

#include "adapters/saved_vocabulary.h"
#include "base/error.h"
#include "config/method_traits.h"
#include "text/vocabulary_hash.h"
#include "train/opening/open_model.h"
#include "train/opening/open_run.h"
#include "train/references/open_reference.h"

namespace hone::train {

namespace {

// "'the'", or "no token".
std::string shown(const text::Tokenizer& tokenizer, std::int32_t id) {
  const auto token = tokenizer.id_to_token(id);
  return token ? "'" + *token + "'" : "no token";
}

}  // namespace

void require_same_vocabulary(const text::Tokenizer& own, const text::Tokenizer& other,
                             const std::string& where, const std::string& ours, const std::string& theirs) {
  if (own.vocab_size() == other.vocab_size() && text::vocabulary_hash(own) == text::vocabulary_hash(other))
    return;
  std::int32_t id = 0;
  const auto most = static_cast<std::int32_t>(std::max(own.vocab_size(), other.vocab_size()));
  while (id < most && own.id_to_token(id) == other.id_to_token(id)) ++id;
  throw base::UserError(
      {.where = where,
       .expected = "a teacher with the vocabulary of " + ours + ", token by token",
       .found = "token " + std::to_string(id) + " is " + shown(own, id) + " in " + ours + " and " +
                shown(other, id) + " in " + theirs,
       .cause = "the loss compares the probabilities of token " + std::to_string(id) +
                " in both models, which would be those of two texts",
       .fix = "name a teacher of the same family, or train the model with the teacher's tokenizer first"});
}

void require_teachers_vocabulary(const OpenedRun& run) {
  const config::Plan& plan = run.plan;
  if (reference_is_model(plan)) return;
  const auto source = adapters::open_base(plan.ref_model, {});
  const OpenedText theirs = open_text(source->tokenizer_path(), "");
  require_same_vocabulary(run.text->tokenizer, theirs.tokenizer,
                          "option " + std::string(config::method_traits(plan.method).reference_option),
                          plan.model_name_or_path, plan.ref_model);
}

}  // namespace hone::train
