// A GGUF: its metadata, its tokenizer, and the numbers of its tensors.
#include "base/gguf/gguf.h"
#include "fuzz/targets/target.h"
#include "text/gguf/gguf_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hone;
  return fuzz::one_input(data, size, [](std::string_view bytes) {
    const fuzz::InputFile input(bytes, ".gguf");
    const base::GgufFile file = base::GgufFile::open(input.path());
    for (const base::GgufTensor& tensor : file.tensors()) {
      std::vector<float> out(static_cast<std::size_t>(tensor.numel()));
      base::dequantize(tensor, out);
    }
    if (file.has("tokenizer.ggml.model")) text::tokenizer_files_from_gguf(file);
  });
}
