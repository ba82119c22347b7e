#include "ops/machine/cuda.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "ops/machine/cuda_search.h"

namespace hone::ops {
namespace cuda_test {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("hone_cuda_" + std::to_string(::getpid()))) {
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const std::string& name) const {
    std::ofstream(path_ / name) << "not a library";
    return (path_ / name).string();
  }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

// ---- libtorch_cuda.so

TEST(Cuda, IsLookedForBesideTheLibtorchOfThisProcess) {
  CudaState state;
  const auto obstacle = find_libtorch_cuda(state, loaded_libraries());
  ASSERT_TRUE(state.library.ends_with("/libtorch_cuda.so")) << state.library;
  EXPECT_TRUE(fs::exists(fs::path(state.library).parent_path() / "libtorch_cpu.so"));
  EXPECT_TRUE(state.torch.starts_with("2.11.")) << state.torch;
  EXPECT_EQ(obstacle.has_value(), !fs::exists(state.library));
  if (!obstacle) {
    EXPECT_GE(state.cuda, 12000) << "a torch with libtorch_cuda loads the CUDA runtime";
  }
}

TEST(Cuda, ATorchWithoutItIsOneForCpus) {
  const Folder folder;
  CudaState state;
  const auto obstacle =
      find_libtorch_cuda(state, {"linux-vdso.so.1", folder.path() + "/libtorch_cpu.so", "/lib/libc.so.6"});
  ASSERT_TRUE(obstacle);
  EXPECT_EQ(obstacle->found, "the torch in " + folder.path() + " has no libtorch_cuda.so");
  EXPECT_NE(obstacle->fix.find("pip install 'torch==2.11.*' from PyPI"), std::string::npos);
  folder.file("libtorch_cuda.so");
  EXPECT_FALSE(find_libtorch_cuda(state, {folder.path() + "/libtorch_cpu.so"}));
}

TEST(Cuda, TwoTorchesAreNamed) {
  CudaState state;
  const auto obstacle =
      find_libtorch_cuda(state, {"/a/torch/lib/libtorch_cpu.so", "/b/torch/lib/libtorch_cpu.so"});
  ASSERT_TRUE(obstacle);
  EXPECT_EQ(obstacle->found, "two torches in this process, of /a/torch/lib and of /b/torch/lib");
  // the same file by two names is one
  const auto one =
      find_libtorch_cuda(state, {"/a/torch/lib/libtorch_cpu.so", "/a/torch/lib/../lib/libtorch_cpu.so"});
  ASSERT_TRUE(one);
  EXPECT_NE(one->found.find("has no libtorch_cuda.so"), std::string::npos);
}

TEST(Cuda, LibrariesOfAnotherTorchAreNamedAfterLoading) {
  const std::string own = "/a/torch/lib/";
  EXPECT_FALSE(check_folders(
      {own + "libtorch_cpu.so", own + "libc10.so", own + "libtorch_cuda.so", own + "libc10_cuda.so"}));
  for (const char* name : {"libc10.so", "libtorch_cuda.so", "libc10_cuda.so"}) {
    const auto obstacle = check_folders({own + "libtorch_cpu.so", std::string("/conda/lib/") + name});
    ASSERT_TRUE(obstacle) << name;
    EXPECT_EQ(obstacle->found, "two torches in this process, of /a/torch/lib and of /conda/lib");
    EXPECT_NE(obstacle->cause.find("LD_LIBRARY_PATH"), std::string::npos);
  }
  EXPECT_FALSE(check_folders(loaded_libraries()));
}

TEST(Cuda, AnotherTorchIsNamedAndAnotherPatchOfItIsNot) {
  const Folder folder;
  folder.file("libtorch_cuda.so");
  const std::vector<std::string> here = {folder.path() + "/libtorch_cpu.so"};
  CudaState state;
  for (const char* version : {"2.12.0", "2.1.1", "3.11.0"}) {
    const auto obstacle = find_libtorch_cuda(state, here, version);
    ASSERT_TRUE(obstacle) << version;
    EXPECT_EQ(obstacle->found, std::string("torch ") + version + " in " + folder.path());
    EXPECT_EQ(obstacle->cause, "this hone is built for torch 2.11");
    EXPECT_EQ(obstacle->fix, "pip install 'torch==2.11.*'");
  }
  for (const char* version : {"2.11.0", "2.11.1", ""})
    EXPECT_FALSE(find_libtorch_cuda(state, here, version)) << version;
}

TEST(Cuda, NoLibtorchIsSaidToo) {
  CudaState state;
  const auto obstacle = find_libtorch_cuda(state, {});
  ASSERT_TRUE(obstacle);
  EXPECT_EQ(obstacle->found, "this process has loaded no libtorch_cpu.so");
}

// ---- what the linker says

std::string fix_of(const std::string& library, std::int64_t cuda) {
  return explain_linker(library + ": cannot open shared object file: No such file or directory", cuda).fix;
}

TEST(Cuda, AMissingLibraryIsNamedWithItsPackage) {
  const base::ErrorText said =
      explain_linker("libcublas.so.13: cannot open shared object file: No such file or directory", 13000);
  EXPECT_EQ(said.found, "libcublas.so.13 is missing, which libtorch_cuda.so needs");
  EXPECT_EQ(said.fix, "pip install nvidia-cublas; pip install 'torch==2.11.*' brings all of them");
}

TEST(Cuda, EveryLibraryThatLibtorchCudaNeedsHasAPackage) {
  const std::pair<const char*, const char*> all[] = {
      {"libcudart.so.13", "nvidia-cuda-runtime;"}, {"libcublas.so.13", "nvidia-cublas;"},
      {"libcublasLt.so.13", "nvidia-cublas;"},     {"libcufft.so.12", "nvidia-cufft;"},
      {"libcufile.so.0", "nvidia-cufile;"},        {"libcupti.so.13", "nvidia-cuda-cupti;"},
      {"libcurand.so.10", "nvidia-curand;"},       {"libcusolver.so.12", "nvidia-cusolver;"},
      {"libcusparse.so.12", "nvidia-cusparse;"},   {"libcusparseLt.so.0", "nvidia-cusparselt-cu13;"},
      {"libnvJitLink.so.13", "nvidia-nvjitlink;"}, {"libcudnn.so.9", "nvidia-cudnn-cu13;"},
      {"libnccl.so.2", "nvidia-nccl-cu13;"},       {"libnvshmem_host.so.3", "nvidia-nvshmem-cu13;"}};
  for (const auto& [library, package] : all)
    EXPECT_EQ(fix_of(library, 13000).find(std::string("pip install ") + package), 0U)
        << library << ": " << fix_of(library, 13000);
  EXPECT_EQ(fix_of("libcublas.so.12", 12060).find("pip install nvidia-cublas-cu12;"), 0U);
  EXPECT_EQ(fix_of("libcudnn.so.9", 12060).find("pip install nvidia-cudnn-cu12;"), 0U);
  EXPECT_EQ(fix_of("libodd.so.1", 13000), "pip install 'torch==2.11.*' brings them");
}

TEST(Cuda, AnotherMessageOfTheLinkerIsShown) {
  const base::ErrorText said = explain_linker("/t/libtorch_cuda.so: undefined symbol: x", 13000);
  EXPECT_EQ(said.found, "libtorch_cuda.so does not load: /t/libtorch_cuda.so: undefined symbol: x");
}

// ---- the driver

// The fake one, which this process then has under the name libcuda.so.1.
class Driver : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { handle_ = dlopen(HONE_FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL); }
  void SetUp() override {
    ASSERT_NE(handle_, nullptr) << dlerror();
    for (const char* name :
         {"FAKE_CUDA", "FAKE_INIT", "FAKE_CARDS", "FAKE_NAME", "FAKE_PAGES", "CUDA_VISIBLE_DEVICES"})
      unsetenv(name);
  }
  void TearDown() override { SetUp(); }
  static base::ErrorText told(std::int64_t cuda = 13000) {
    CudaDriver driver;
    const auto obstacle = ask_driver(driver, cuda);
    EXPECT_TRUE(obstacle);
    return obstacle.value_or(base::ErrorText());
  }

 private:
  static void* handle_;
};
void* Driver::handle_ = nullptr;

TEST_F(Driver, TellsItsCards) {
  setenv("FAKE_CARDS", "2", 1);
  setenv("FAKE_NAME", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", 1);
  CudaDriver driver;
  EXPECT_FALSE(ask_driver(driver, 13000));
  EXPECT_EQ(driver.cuda, 13000);
  ASSERT_EQ(driver.cards.size(), 2U);
  EXPECT_EQ(driver.cards[1], (CudaCard{.name = "NVIDIA A100-SXM4-40GB MIG 1g.5gb 1",
                                       .memory = 81'000'000'000,
                                       .capability = 90,
                                       .maps_pages = true}));
  EXPECT_EQ(describe(driver, 0), "NVIDIA A100-SXM4-40GB MIG 1g.5gb 0, 80.00 GB");
}

TEST_F(Driver, TellsOfACardThatMapsNoPages) {
  setenv("FAKE_PAGES", "0", 1);
  CudaDriver driver;
  EXPECT_FALSE(ask_driver(driver, 13000));
  EXPECT_FALSE(driver.cards.at(0).maps_pages);
}

TEST_F(Driver, OneThatIsTooOldIsToldWithTheVersionThatIsNeeded) {
  setenv("FAKE_CUDA", "12040", 1);
  const base::ErrorText said = told();
  EXPECT_NE(said.found.find("is for CUDA 12.4, and this torch is for CUDA 13.0"), std::string::npos)
      << said.found;
  EXPECT_EQ(said.cause, "the driver is too old");
  EXPECT_EQ(said.fix, "install NVIDIA's driver 580 or newer, or a torch for an older CUDA");
  CudaDriver driver;
  EXPECT_FALSE(ask_driver(driver, 12080)) << "a driver serves later minor versions";
  setenv("FAKE_CUDA", "11080", 1);
  EXPECT_EQ(told(12060).fix, "install NVIDIA's driver 525 or newer, or a torch for an older CUDA");
}

TEST_F(Driver, NoCardNamesTheVariableThatHidesThem) {
  for (const char* how : {"FAKE_INIT=100", "FAKE_CARDS=0"}) {
    const std::string word = how;
    const std::size_t equals = word.find('=');
    setenv(word.substr(0, equals).c_str(), word.c_str() + equals + 1, 1);
    EXPECT_EQ(told().found, "the driver shows no GPU");
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    EXPECT_EQ(told().found, "the driver shows no GPU: CUDA_VISIBLE_DEVICES is empty");
    setenv("CUDA_VISIBLE_DEVICES", "7", 1);
    EXPECT_EQ(told().found, "the driver shows no GPU: CUDA_VISIBLE_DEVICES is '7'");
    SetUp();
  }
}

TEST_F(Driver, OneThatDoesNotStartSaysWhy) {
  const std::pair<const char*, const char*> causes[] = {{"803", "kernel module"},
                                                        {"802", "NVSwitch"},
                                                        {"804", "forward compatibility"},
                                                        {"34", "stub"},
                                                        {"999", "damaged"}};
  for (const auto& [code, cause] : causes) {
    setenv("FAKE_INIT", code, 1);
    const base::ErrorText said = told();
    EXPECT_EQ(said.found.find(std::string("NVIDIA's driver does not start: error ") + code), 0U)
        << said.found;
    EXPECT_NE(said.cause.find(cause), std::string::npos) << said.cause;
  }
}

// ---- the whole

TEST(Cuda, WhyNotIsOneSentence) {
  CudaState state;
  state.obstacle = {
      .where = {}, .expected = {}, .found = "a is missing", .cause = "of b", .fix = "install c"};
  EXPECT_EQ(state.why_not(), "a is missing (of b); install c");
  state.loaded = true;
  EXPECT_EQ(state.why_not(), "");
}

TEST(Cuda, VersionsAreThoseThatAreKnown) {
  CudaState state;
  state.torch = "2.11.0";
  state.cuda = 13000;
  state.driver.cuda = 13010;
  EXPECT_EQ(versions(state), "driver for CUDA 13.1, torch 2.11.0 for CUDA 13.0");
  state.driver.version = "580.65.06";
  EXPECT_EQ(versions(state), "driver 580.65.06 for CUDA 13.1, torch 2.11.0 for CUDA 13.0");
}

TEST(Cuda, TheCpuNeedsNoneOfIt) {
  EXPECT_EQ(open_device("cpu"), at::Device(at::kCPU));
}

}  // namespace cuda_test
}  // namespace hone::ops
