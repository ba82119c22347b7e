// SentencePiece BPE in a GGUF: pieces with scores instead of merges, and spaces spelled "▁" (U+2581).
//
// tokenizer.json has merges instead. A piece stands for a merge of every two pieces that make it up, and a
// higher score merges first (llama.cpp's llm_tokenizer_spm). Merges of one piece are in the order in which
// transformers 5.23.0 derives them (generate_merges in tokenization_utils_base.py). Only normal pieces merge:
// control and user-defined tokens are found in the text before.
//
// Gemma's runs of spaces are an exception. A GGUF has them as user-defined tokens of spaces; in Gemma's
// tokenizer.json they are tokens of "▁" that merge before everything else, longest first. They are read so.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/gguf/gguf_parts.h"

namespace hone::text {

// How a text begins, which is all that such tokenizers differ in.
enum class PieceForm {
  kSpaceFirst,      // Mistral 7B v0.3: a space before the text (Metaspace, "first")
  kSpaceIfMissing,  // Llama 2 as transformers 5 saves it: before every part that has none (Metaspace, "always")
  kSpaceBefore,     // Llama 2, Mistral 7B v0.1, Mixtral, Phi-3: before every part between special tokens
  kAsItIs           // Gemma: nothing
};

// By general.architecture, and tokenizer.ggml.add_space_prefix where the file has it. A GGUF cannot say
// which of three forms puts the space: llama.cpp has kSpaceBefore. (transformers 5.23.0 reads all but Phi-3
// as kSpaceFirst.) hone's own files say it by a key that others skip, with Metaspace's word as its value.
PieceForm piece_form(std::string_view architecture, std::optional<bool> space_prefix,
                     std::string_view scheme);
inline constexpr const char* kPrependScheme = "hone.tokenizer.prepend_scheme";
// Metaspace's word for a form: "first" or "always"; empty for one without Metaspace.
std::string prepend_scheme(PieceForm form);

// Whether scores of an architecture do not follow its merges; there the position in the list does (Gemma).
bool merges_by_position(std::string_view architecture);

using Merge = std::pair<std::string, std::string>;

// Merges in their order. `scores`: one a token; `normal`: whether a token is a normal piece.
// The cost is that of looking up every part of every token. UserError (naming `where`) for a piece beyond
// 1 KiB, pieces that together cost more than 256 MiB of parts, and a score that is no number.
std::vector<Merge> merges_of_pieces(std::span<const std::string> tokens, std::span<const double> scores,
                                    const std::vector<bool>& normal, const std::string& where);

// The other direction: a score a token, so that earlier merges have higher ones; tokens that are no merge
// come after all that are. nullopt where no scores stand for these merges: a merge of two normal pieces is
// missing, or merges of several pieces alternate in another order than that of pieces with one score.
std::optional<std::vector<float>> scores_of_merges(std::span<const std::string> tokens,
                                                   std::span<const Merge> merges,
                                                   const std::vector<bool>& normal, const std::string& where);

// The parts of tokenizer.json that belong to a form.
struct PieceParts {
  base::Json normalizer, pre_tokenizer, decoder;
};
PieceParts piece_parts(PieceForm form);

// The text of a piece as a GGUF spells user-defined tokens: with spaces for "▁".
std::string with_spaces(std::string_view piece);
// Back, for a token of nothing but spaces; nullopt for any other.
std::optional<std::string> run_of_spaces(std::string_view token);

}  // namespace hone::text
