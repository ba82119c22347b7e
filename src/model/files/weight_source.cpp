#include "model/files/weight_source.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "base/strings/suggest.h"
#include "base/strings/utf8.h"

namespace hone::model {

at::Tensor WeightSource::read(const std::string& name, at::ScalarType dtype) const {
  at::Tensor out = at::empty(shape(name), dtype);
  read_into(name, out);
  return out;
}

ops::Quantized WeightSource::read_quantized(const std::string& name) const {
  throw base::InternalError({"WeightSource::read_quantized", "a quantized matrix", name, "", ""});
}

ops::Quantized WeightSource::read_blocks(const std::string& name) const {
  throw base::InternalError({"WeightSource::read_blocks", "a matrix in blocks", name, "", ""});
}

std::unique_ptr<WeightSource> open_weights(const base::fs::path& path) {
  std::error_code ec;
  if (base::fs::is_directory(path, ec)) return open_hf_folder(path);
  if (!base::fs::exists(path, ec)) {
    throw base::UserError({path.string(), "a model: a folder in Hugging Face format, or a .gguf file",
                           "nothing there", "a misspelled path, or a model that was never downloaded",
                           "give the path of a folder on this machine: hone downloads nothing"});
  }
  if (path.extension() == ".gguf") return open_gguf(path);
  throw base::UserError({path.string(), "a folder in Hugging Face format, or a .gguf file",
                         "another kind of file", "",
                         path.extension() == ".safetensors" ? "give the folder that contains it" : ""});
}

void throw_absent_tensor(const std::string& where, const std::string& name,
                         const std::vector<std::string>& present) {
  throw base::UserError({where, "the tensor " + base::cut_text(name, 200),
                         "no tensor of that name among " + std::to_string(present.size()) + "." +
                             base::did_you_mean(name, present),
                         "config.json belongs to another model, or the file is incomplete",
                         "download the model again"});
}

}  // namespace hone::model
