#include "server/run/names.h"

#include <algorithm>

namespace gradstream {
namespace {

// Those of runtime/problem/problem.h, which the server does not link.
const std::vector<std::string>& builtin_problems() {
  static const std::vector<std::string> names = {"kpca",       "brockett",      "spd_mean", "multitask",
                                                 "hyperbolic", "least_squares", "logistic", "completion",
                                                 "perceptron", "lenet",         "network"};
  return names;
}

}  // namespace

std::string variants_of(ManifoldId id) {
  std::string text;
  for (const ManifoldOps* ops : all_manifolds()) {
    if (ops->id == id) {
      text += (text.empty() ? "" : ", ") + std::string(name_of(ops->retraction_kind)) + " with " +
              name_of(ops->transport_kind);
    }
  }
  return text;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string nearest_of(std::string_view word, const std::vector<std::string>& known) {
  const auto nearer = [&](const std::string& a, const std::string& b) {
    return edit_distance(word, a) < edit_distance(word, b);
  };
  return *std::min_element(known.begin(), known.end(), nearer);
}

std::string slip_of(std::string_view word, const std::vector<std::string>& known) {
  constexpr size_t kSlipMax = 2;  // letters that a slip of the fingers changes
  std::string nearest = nearest_of(word, known);
  const size_t distance = edit_distance(word, nearest);
  return distance <= kSlipMax && distance < word.size() ? nearest : std::string();
}

std::string builtin_problem_hint(const std::string& name) {
  const std::vector<std::string>& known = builtin_problems();
  if (name.empty() || std::find(known.begin(), known.end(), name) != known.end()) {
    return "";
  }
  const std::string nearest = slip_of(name, known);
  return "no built-in problem has the name " + name + (nearest.empty() ? "" : ", the nearest one is " + nearest) +
         ": the devices must bring it";
}

}  // namespace gradstream
