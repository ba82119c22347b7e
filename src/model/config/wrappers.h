// Folders of models with images or sound, of whose parts hone trains the text model: Gemma3ForConditionalGeneration and
// its like. Their config.json has the text model's in `text_config`. Tensors and adapters have the names of the class that
// config.json names, which transformers and TRL build: "model.language_model.layers.0...". The other parts stay in the
// files: they are not read, and are copied when the model is written (export.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace hone::model {

struct Wrapper {
  std::string_view model_type;  // config.json's: "gemma3"
  std::string_view text_type;   // text_config's, where it says none
  bool tied_head;               // transformers' class default of tie_word_embeddings
  // The class of a reward model in such a folder; empty: transformers has none.
  std::string_view classifier = {};
};

const std::vector<Wrapper>& wrappers();
const Wrapper* find_wrapper(std::string_view model_type);  // nullptr: it is none that hone knows

// The text model's config.json: text_config, with what the whole file says of the dtype, the tokens that begin and end, the tied
// head and quantization. (pad_token_id is text_config's: the text model's embedding is made of it.) UserError where text_config is no object.
base::Json text_config_of(const base::Json& file, const Wrapper& wrapper, const std::string& where);

// The name that a tensor of such a file has in the class: files of transformers 4 have "language_model.model.layers.0..."
// where the class has "model.language_model.layers.0...". Empty: it belongs to another part.
std::optional<std::string> text_tensor_name(std::string_view stored);

// "model.layers." -> "model.language_model.layers."; a head's name stays.
std::string wrapped_name(std::string_view of_text_class);

// A regular expression of PEFT's exclude_modules for everything that is not the text model.
inline constexpr std::string_view kOtherParts = R"((?!model\.language_model\.|lm_head|score).*)";

}  // namespace hone::model
