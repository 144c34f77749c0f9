// Threads and room for the functions of the C interface.
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

/// Where memory is short a function of the interface says so by this; where all went well, by zero.
constexpr int OUT_OF_MEMORY = 1;

/// The functions of the instruction set in use.
const Kernels& in_use();

namespace {

constexpr Index WORTH_A_THREAD = 1 << 21;  // numbers of pairs that take longer than starting one

/// Numbers that begin where a line of the cache does, so that no vector lies across two.
class Room {
 public:
  explicit Room(Index count)
      : numbers_(static_cast<float*>(operator new(sizeof(float) * count, LINE))) {}
  float* numbers() const { return numbers_.get(); }

 private:
  static constexpr std::align_val_t LINE{64};
  struct Free {
    void operator()(float* numbers) const { operator delete(numbers, LINE); }
  };
  std::unique_ptr<float, Free> numbers_;
};

/// Runs work(0) to work(threads - 1), each on a thread of its own. With OpenMP these are the threads
/// that torch uses, which would otherwise wait for its next call on the cores that ours need.
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
      break;  // no more threads to be had: the others do the work
    }
  }
  work(0);
  for (std::thread& other : others) other.join();
#endif
}

/// Runs task(index, room) for every index, on several threads where that is worth it. Each index is
/// one thread's alone, and what it writes does not depend on how many threads there are.
template <typename Task>
void share_out(Index count, Index room, Index threads, const Task& task) {
  if (threads > count) threads = count;
  if (threads < 1) threads = 1;
  std::vector<Room> rooms;  // all of it before a thread starts: failing is still harmless
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
