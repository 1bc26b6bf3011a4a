#include "dtune/train/torch_settings.h"

#include <algorithm>
#include <ctime>
#include <exception>
#include <mutex>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>

namespace dtune {
namespace {

template <typename Function>
Function* loaded_function(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

void set_threads(int threads) {
  at::set_num_threads(threads);
  // LibTorch does not pass it on to OpenBLAS, which takes every core.
  if (auto* set = loaded_function<void(int)>("openblas_set_num_threads")) {
    set(threads);
  }
}

#ifdef M_MMAP_MAX
// Of a threshold glibc takes so much at most. A batch of 64 channels exceeds
// it, so that without a cap on memory no block has a mapping of its own. Blocks
// that are free stay resident then, which a cap would count.
constexpr int kLargestArenaBlock = 32 << 20;

bool has_memory_cap() {
  rlimit limit = {};
  return ::getrlimit(RLIMIT_DATA, &limit) == 0 &&
         limit.rlim_cur != RLIM_INFINITY;
}
#endif

void prepare_once() {
#ifdef M_MMAP_MAX
  if (has_memory_cap()) {
    ::mallopt(M_MMAP_THRESHOLD, kLargestArenaBlock);
  } else {
    ::mallopt(M_MMAP_MAX, 0);
  }
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
  try {
    at::set_num_interop_threads(1);
  } catch (const std::exception&) {
    // The pool was started before: it stays as it is, unused.
  }
}

// Processor time of this thread.
double thread_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

// "0.3.21" of "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...".
std::string version_in(const std::string& config) {
  const size_t begin = config.find(' ');
  if (begin == std::string::npos) return "";
  return config.substr(begin, config.find(' ', begin + 1) - begin);
}

}  // namespace

void prepare_process() {
  static std::once_flag once;
  std::call_once(once, prepare_once);
}

void use(const Computing& computing) {
  prepare_process();
  at::globalContext().setDeterministicAlgorithms(computing.deterministic,
                                                 /*warn_only=*/false);
  at::globalContext().setAllowTF32CuBLAS(computing.tf32);
  at::globalContext().setAllowTF32CuDNN(computing.tf32);
  // Measures the kernels for each shape: batches have few shapes.
  at::globalContext().setBenchmarkCuDNN(!computing.deterministic);
  set_threads(computing.deterministic ? 1 : computing.threads);
}

SingleThread::SingleThread() : threads_(at::get_num_threads()) {
  set_threads(1);
}

SingleThread::~SingleThread() { set_threads(threads_); }

bool has_optimized_blas() {
  return loaded_function<const char*()>("openblas_get_config") != nullptr ||
         at::globalContext().hasMKL();
}

std::string blas_name() {
  using Text = const char*();
  if (auto* config = loaded_function<Text>("openblas_get_config")) {
    auto* core = loaded_function<Text>("openblas_get_corename");
    return fmt::format("OpenBLAS{} ({})", version_in(config()),
                       core != nullptr ? core() : "unknown core");
  }
  if (at::globalContext().hasMKL()) return "Intel MKL";
  return "neither OpenBLAS nor MKL (slow; install libopenblas0-pthread)";
}

double matrix_rate() {
  constexpr int64_t kSize = 768;
  constexpr double kOperations = 2.0 * kSize * kSize * kSize;
  constexpr double kLongest = 0.5;  // seconds of processor time
  constexpr int kMost = 40;
  const SingleThread one;
  const at::Tensor a = at::ones({kSize, kSize}, at::kFloat);
  at::Tensor product = at::mm(a, a);  // starts the BLAS
  const double first = thread_seconds();
  double best = 0;
  for (int i = 0; i < kMost && thread_seconds() - first < kLongest; ++i) {
    const double begin = thread_seconds();
    at::mm_out(product, a, a);
    const double seconds = thread_seconds() - begin;
    if (seconds > 0) best = std::max(best, kOperations / seconds / 1e9);
  }
  return best;
}

}  // namespace dtune
