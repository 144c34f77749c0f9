// The kernels under the sanitizers (make sanitize): problems of many shapes, on several threads, for
// every instruction set of this machine. What is found is held against loops in double precision; what
// the sanitizers find ends the program.
#include "checks.hpp"

int main() {
  Random random(1);
  int count = 0;
  regard_estimates(0);
  for (int lanes : {16, 8, 4}) {
    if (regard_lanes(lanes) != lanes) continue;
    for (auto check : {check_additive, check_candidates, check_cells, check_dots, check_dropout,
                       check_entropy, check_products, check_steps, check_encoder, check_integers,
                       check_recurrent_steps})
      count += check(random);
  }
  regard_estimates(1);
  if (regard_lanes(8) == 8) count += check_additive(random);
  std::printf("%d problems are right, %d calls with wrong sizes are refused\n", count, refused);
}
