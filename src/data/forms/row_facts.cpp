#include "data/forms/row_facts.h"

#include <type_traits>

#include "base/json.h"

namespace hone::data {

using base::Json;

namespace {

// A struct with a new field has another size: the field belongs into its list.
static_assert(sizeof(DataFacts) == 208 && sizeof(PreferenceFacts) == 152 && sizeof(UnpairedFacts) == 88,
              "each_field() has every field");

template <typename Field>
void each_field(DataFacts& facts, const Field& field) {
  field("form", facts.form);
  field("conversational", facts.conversational);
  field("rows", facts.rows);
  field("kept", facts.kept);
  field("tokens", facts.tokens);
  field("supervised_tokens", facts.supervised_tokens);
  field("rows_cut", facts.rows_cut);
  field("tokens_cut", facts.tokens_cut);
  field("rows_too_long", facts.rows_too_long);
  field("rows_without_target", facts.rows_without_target);
  field("rows_losing_eos", facts.rows_losing_eos);
  field("rows_without_eos_target", facts.rows_without_eos_target);
  field("prompt_boundary_mismatches", facts.prompt_boundary_mismatches);
  field("longest", facts.longest);
  field("mean_length", facts.mean_length);
  field("rows_emptied_by_cut", facts.rows_emptied_by_cut);
  field("rows_never_ending", facts.rows_never_ending);
  field("rows_with_two_bos", facts.rows_with_two_bos);
  field("rows_with_bos", facts.rows_with_bos);
  field("supervised_before_cut", facts.supervised_before_cut);
  field("supervised_lost", facts.supervised_lost);
  field("length_keeping_99", facts.length_keeping_99);
  field("rows_with_sharegpt_roles", facts.rows_with_sharegpt_roles);
  field("rows_hiding_attention", facts.rows_hiding_attention);
  field("rows_with_own_labels", facts.rows_with_own_labels);
  field("rows_with_shifted_labels", facts.rows_with_shifted_labels);
  field("labels", facts.token_columns.labels);
  field("completion_mask", facts.token_columns.completion_mask);
  field("assistant_masks", facts.token_columns.assistant_masks);
  field("conversational_tokens", facts.token_columns.conversational);
  field("completions", facts.token_columns.completions);
}

template <typename Field>
void each_field(PreferenceFacts& facts, const Field& field) {
  field("rows", facts.rows);
  field("kept", facts.kept);
  field("implicit", facts.implicit);
  field("conversational", facts.conversational);
  field("tokens", facts.tokens);
  field("completion_tokens", facts.completion_tokens);
  field("pairs_cut", facts.pairs_cut);
  field("prompts_too_long", facts.prompts_too_long);
  field("too_long", facts.too_long);
  field("equal", facts.equal);
  field("equal_by_template", facts.equal_by_template);
  field("equal_example", facts.equal_example);
  field("boundary_mismatches", facts.boundary_mismatches);
  field("longest", facts.longest);
  field("longest_prompt", facts.longest_prompt);
  field("mean_chosen", facts.mean_chosen);
  field("mean_rejected", facts.mean_rejected);
}

template <typename Field>
void each_field(UnpairedFacts& facts, const Field& field) {
  field("rows", facts.rows);
  field("kept", facts.kept);
  field("desirable", facts.desirable);
  field("paired", facts.paired);
  field("conversational", facts.conversational);
  field("tokens", facts.tokens);
  field("completion_tokens", facts.completion_tokens);
  field("rows_cut", facts.rows_cut);
  field("prompts_too_long", facts.prompts_too_long);
  field("boundary_mismatches", facts.boundary_mismatches);
  field("longest", facts.longest);
  field("longest_prompt", facts.longest_prompt);
}

template <std::size_t Index = 0>
RowFacts facts_of_kind(std::size_t kind) {
  if constexpr (Index < std::variant_size_v<RowFacts>) {
    return kind == Index ? RowFacts(std::in_place_index<Index>) : facts_of_kind<Index + 1>(kind);
  } else {
    throw base::UserError({.where = "kept tokens", .expected = "a kind of facts", .found = "another"});
  }
}

}  // namespace

RowCounts counts_of(const RowFacts& facts) {
  return std::visit(
      [](const auto& of) {
        RowCounts out{.rows = of.rows, .kept = of.kept, .tokens = of.tokens, .longest = of.longest};
        out.conversational = of.conversational;
        if constexpr (requires { of.form; }) out.plain_prompts = of.form == RowForm::kPromptCompletion;
        if constexpr (requires { of.implicit; }) out.plain_prompts = !of.implicit;
        if constexpr (requires { of.paired; }) out.plain_prompts = !of.paired;
        out.plain_prompts = out.plain_prompts && !of.conversational;
        return out;
      },
      facts);
}

std::string facts_text(const RowFacts& facts) {
  Json out = {{"kind", facts.index()}};
  std::visit(
      [&out](auto of) {
        each_field(of, [&out](const char* name, auto& value) {
          if constexpr (std::is_enum_v<std::remove_reference_t<decltype(value)>>) {
            out[name] = static_cast<int>(value);
          } else {
            out[name] = value;
          }
        });
      },
      facts);
  return base::dump_json(out);
}

RowFacts read_facts(const std::string& text) {
  const Json json = base::parse_json(text, "kept tokens");
  RowFacts out = facts_of_kind(json.at("kind").get<std::size_t>());
  std::visit(
      [&json](auto& of) {
        each_field(of, [&json](const char* name, auto& value) {
          if constexpr (std::is_enum_v<std::remove_reference_t<decltype(value)>>) {
            value = static_cast<std::remove_reference_t<decltype(value)>>(json.at(name).get<int>());
          } else {
            json.at(name).get_to(value);
          }
        });
      },
      out);
  return out;
}

}  // namespace hone::data
