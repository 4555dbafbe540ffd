#include "server/run/check_parameters.h"

#include <cmath>
#include <string>
#include <string_view>
#include <type_traits>

#include "server/run/field_text.h"
#include "server/run/key_table.h"
#include "server/run/visit_keys.h"

namespace gradstream {
namespace {

template <typename Field>
bool is_in(const Range& range, const Field& field) {
  if constexpr (std::is_same_v<Field, std::string>) {
    return range.has(static_cast<double>(field.size()));
  } else if constexpr (std::is_floating_point_v<Field>) {
    return std::isfinite(field) && range.has(static_cast<double>(field));
  } else if constexpr (std::is_same_v<Field, uint32_t>) {
    return range.has(field);
  } else {
    return true;  // a word
  }
}

template <typename Field>
std::string refusal(const Key& key, const Field& field) {
  const bool has_end = std::isfinite(key.range.least) || std::isfinite(key.range.most);
  const std::string wanted = has_end ? range_text(key.range, key.unit) : "that is finite";
  const std::string found = std::is_same_v<Field, std::string> ? "has " : "is ";
  std::string value = field_text(field);
  if constexpr (std::is_same_v<Field, std::string>) {
    value = std::to_string(field.size());
  }
  return std::string(key.name) + ": needs " + (key.unit[0] == '\0' ? "a number " : "") + wanted + "; it " + found +
         value;
}

// Each key is in the range that its group says. A range of some runs alone is checked by the group.
Objection check_ranges(const RunParameters& p) {
  Objection objection;
  visit_keys(p, [&](const Key& key, const auto& field) {
    // A product is one column that may be longer than any other; check_model() knows how long.
    const bool is_product = p.model->manifold == ManifoldId::kProduct && key.name == std::string_view("rows");
    if (!objection && !is_product && key.range.where[0] == '\0' && !is_in(key.range, field)) {
      objection = refusal(key, field);
    }
  });
  return objection;
}

}  // namespace

Objection check_parameters(const RunParameters& p) {
  // The first that finds something speaks. Their order decides which of several faults a user is told, and later checks
  // compute with what earlier ones have found sound.
  constexpr Objection (*kChecks[])(const RunParameters&) = {
      // What a device does.
      check_local_work, check_uploads, check_batches, check_proximal, check_svrg, check_steps,
      // The point, and what is minimised.
      check_model,
      // What the server does with answers, once every number is in its range.
      check_ranges, check_groups, check_participation, check_over_selection, check_straggler, check_timed_work,
      check_retry, check_weight_share, check_buffer, check_delay_rule, check_delay_switch, check_average, check_curve,
      check_kept_models};
  for (const auto check : kChecks) {
    if (Objection objection = check(p)) {
      return objection;
    }
  }
  return {};
}

Objection check_new_run(const RunParameters& p) {
  if (Objection objection = check_parameters(p)) {
    return objection;
  }
  if (p.model->problem == kNetworkProblemName && p.model->network.empty()) {
    return "network, problem: the problem \"network\" needs the network that is trained; name its file in network, and "
           "`gradstream network show FILE` prints the keys";
  }
  // While one device works each of the others makes a version, even where all are of one speed. With a larger buffer
  // many devices may be away at any time, so that advice() warns instead.
  if (p.trigger->buffer_size == 1 && p.trigger->staleness_max < p.trigger->device_count - 1) {
    return "staleness_max, device_count, buffer_size: with a version for every update each of " +
           std::to_string(p.trigger->device_count) + " devices of one speed is " +
           std::to_string(p.trigger->device_count - 1) +
           " versions behind, and beyond staleness_max = " + std::to_string(p.trigger->staleness_max) +
           " an update is refused; raise staleness_max (at most " + std::to_string(kStalenessMax) + ") or buffer_size";
  }
  return {};
}

}  // namespace gradstream
