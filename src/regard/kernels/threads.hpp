// Threads and workspace of the functions of the C interface.
#pragma once

#include <atomic>
#include <memory>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "kernels.hpp"

#ifdef _OPENMP
#include <omp.h>
#endif

#define EXPORTED extern "C" __attribute__((visibility("default")))

/// Status that a function of the interface returns without enough memory; zero is success.
constexpr int OUT_OF_MEMORY = 1;

namespace {

constexpr Index WORTH_A_THREAD = 1 << 21;  // numbers of pairs that take longer than starting one

/// Numbers aligned to cache lines, so that no vector crosses two lines.
class Room {
 public:
  explicit Room(Index count)
      : numbers_(static_cast<float*>(operator new(sizeof(float) * count, ALIGNED))) {}
  float* numbers() const { return numbers_.get(); }

 private:
  static constexpr std::align_val_t ALIGNED{LINE};
  struct Free {
    void operator()(float* numbers) const { operator delete(numbers, ALIGNED); }
  };
  std::unique_ptr<float, Free> numbers_;
};

/// Run work(0) to work(threads - 1), each on its own thread. With OpenMP these are PyTorch's threads,
/// which would otherwise spin on the cores that ours need.
template <typename Work>
void on_threads(Index threads, const Work& work) {
#ifdef _OPENMP
#pragma omp parallel num_threads(int(threads))
  work(omp_get_thread_num());
#else
  std::vector<std::thread> others;
  others.reserve(threads);
  for (Index i = 1; i < threads; ++i) {
    try {
      others.emplace_back(work, i);
    } catch (const std::system_error&) {
      break;  // no more threads are available: the others do the work
    }
  }
  work(0);
  for (std::thread& other : others) other.join();
#endif
}

/// Run task(index, room) for every index, on several threads if this is faster. Each index is computed
/// by one thread, and its result does not depend on the number of threads.
template <typename Task>
void share_out(Index count, Index room, Index threads, const Task& task) {
  if (threads > count) threads = count;
  if (threads < 1) threads = 1;
  std::vector<Room> rooms;  // allocated before a thread starts, when failing is harmless
  for (Index i = 0; i < threads; ++i) rooms.emplace_back(room);
  std::atomic<Index> next{0};
  auto work = [&](Index thread) {
    for (Index index; (index = next.fetch_add(1)) < count;) task(index, rooms[thread].numbers());
  };
  if (threads == 1)
    work(0);
  else
    on_threads(threads, work);
}

}  // namespace
