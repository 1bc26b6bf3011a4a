// Settings of LibTorch and the allocator that hold for the whole process: a
// worker sets them before each piece of work, for whatever trial it is.
#pragma once

#include <string>

namespace dtune {

// Call before anything else; does its work once per process. Raises the sizes
// from which glibc gives freed blocks back to the system (each batch would
// fault the same pages in again), and turns LibTorch's second thread pool off.
void prepare_process();

struct Computing {
  int threads = 1;             // of one operation, LibTorch's and the BLAS's
  bool deterministic = false;  // only kernels that give the same bits; then
                               // threads is taken as 1
  bool tf32 = true;            // GPUs may round the factors of float32 products
};
void use(const Computing& computing);

// One thread while it lives, then what was before: results do not depend on
// how many cores there are.
class SingleThread {
 public:
  SingleThread();
  ~SingleThread();
  SingleThread(const SingleThread&) = delete;
  SingleThread& operator=(const SingleThread&) = delete;

 private:
  int threads_;
};

// "OpenBLAS 0.3.21 (SkylakeX)", "Intel MKL" or a hint that it is a slow one.
std::string blas_name();
// Whether that is known to be a fast one.
bool has_optimized_blas();

// GFLOP/s of one thread that multiplies large matrices: the best of many, each
// by the processor time that the thread got, so that other processes do not
// lower it. Takes about half a second.
double matrix_rate();

}  // namespace dtune
