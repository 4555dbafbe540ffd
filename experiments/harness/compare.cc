#include "experiments/harness/compare.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include <fnmatch.h>

#include "server/run/run_core.h"

namespace gradstream {
namespace {

constexpr uint32_t kFirstRounds = kIsDouble ? 10 : 3;  // that every run must follow, see Tolerance
constexpr double kEndFactor = 4;
constexpr Real kShortSmoothing = static_cast<Real>(5e-4);

double measure_of(const Measures& measures, const std::string& name) {
  return name == "excess"      ? measures.excess
         : name == "grad_norm" ? measures.grad_norm
         : name == "refitted"  ? measures.refitted
                               : measures.other;
}

std::string reference_path(const std::string& experiment) {
  return GS_SOURCE_DIR "/experiments/reference/" + experiment + ".txt";
}

}  // namespace

std::vector<ReferenceCurve> read_references(const std::string& experiment) {
  std::vector<ReferenceCurve> references;
  std::ifstream file(reference_path(experiment));
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') {
      continue;
    }
    std::istringstream words(line);
    ReferenceCurve& reference = references.emplace_back();
    size_t count = 0;
    words >> reference.key >> reference.seed >> reference.measure >> count;
    reference.points.resize(count);
    for (ReferenceCurve::Point& point : reference.points) {
      words >> point.round >> point.value;
    }
    GS_ASSERT(!words.fail());
  }
  return references;
}

namespace {

// "not run in double:" and so on, up to the colon. False: no exception, or of the other precision.
bool parse_head(const std::string& head, ReferenceException* out) {
  std::istringstream words(head);
  std::string word;
  words >> word;
  if (word == "not" && words >> word && word == "run") {
    out->kind = ReferenceException::Kind::kNotRun;
  } else if (word == "ends") {
    out->kind = ReferenceException::Kind::kEnds;
  } else if (word == "sensitive") {
    out->kind = ReferenceException::Kind::kSensitive;
  } else if (word == "wanders") {
    out->kind = ReferenceException::Kind::kWanders;
  } else if (word == "within" || word == "floor") {
    out->kind = word == "floor" ? ReferenceException::Kind::kFloor : ReferenceException::Kind::kWithin;
    words >> out->within;
    GS_ASSERT(!words.fail());
  } else {
    return false;
  }
  bool is_ours = true;
  while (words >> word) {
    std::string value;
    words >> value;
    if (word == "in") {
      is_ours = value == (kIsDouble ? "double" : "float");
    } else if (word == "seed") {
      out->seed = static_cast<uint32_t>(std::stoul(value));
    } else if (word == "above") {
      out->seed_above = static_cast<uint32_t>(std::stoul(value));
    } else if (word == "round" || word == "from") {
      out->least_round = static_cast<uint32_t>(std::stoul(value));
    } else if (word == "within") {
      out->within = std::stod(value);
    } else if (word == "of") {
      out->measures.push_back(value);
    } else {
      GS_ASSERT(word == "by");
      out->fault = value;
    }
  }
  const bool is_of_runs =
      out->kind == ReferenceException::Kind::kNotRun || out->kind == ReferenceException::Kind::kEnds;
  GS_ASSERT(is_of_runs == out->measures.empty());
  return is_ours;
}

bool is_of_seed(const ReferenceException& exception, uint32_t seed) {
  return exception.seed == 0 ? seed > exception.seed_above : seed == exception.seed;
}

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text.append(text.empty() ? "" : ", ").append(name);
  }
  return text;
}

}  // namespace

std::vector<ReferenceException> parse_exceptions(const std::string& text) {
  std::vector<ReferenceException> exceptions;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    ReferenceException exception;
    if (line.rfind("# ", 0) == 0 && colon != std::string::npos && parse_head(line.substr(2, colon - 2), &exception)) {
      std::istringstream rest(line.substr(colon + 1));
      rest >> exception.glob >> std::ws;
      std::getline(rest, exception.reason);
      GS_ASSERT(!exception.glob.empty() && !exception.reason.empty());  // a reason is what makes it an exception
      exceptions.push_back(std::move(exception));
    }
  }
  return exceptions;
}

std::vector<ReferenceException> read_exceptions(const std::string& experiment) {
  std::ifstream file(reference_path(experiment));
  std::stringstream text;
  text << file.rdbuf();
  return parse_exceptions(text.str());
}

bool matches(const ReferenceException& exception, const std::string& key, uint32_t seed) {
  return is_of_seed(exception, seed) && fnmatch(exception.glob.c_str(), key.c_str(), 0) == 0;
}

bool matches(const ReferenceException& exception, const std::string& key, uint32_t seed, const std::string& measure) {
  return matches(exception, key, seed) &&
         std::find(exception.measures.begin(), exception.measures.end(), measure) != exception.measures.end();
}

void check_marks(const std::vector<ReferenceException>& exceptions, const std::vector<HeldKey>& cases,
                 const std::vector<HeldMeasure>& lines, uint32_t seed, Judgement* judgement) {
  std::vector<std::string> faults;
  for (const ReferenceException& exception : exceptions) {
    if (exception.kind == ReferenceException::Kind::kNotRun || !is_of_seed(exception, seed)) {
      continue;
    }
    const auto is_of = [&](const HeldKey& one) { return matches(exception, one.key, one.seed); };
    if (std::none_of(cases.begin(), cases.end(), is_of)) {
      faults.push_back(exception.glob);
    }
    for (const std::string& measure : exception.measures) {
      const auto has_line = [&](const HeldMeasure& line) { return is_of(line.one); };
      const auto has_measure = [&](const HeldMeasure& line) { return is_of(line.one) && line.measure == measure; };
      if (std::any_of(lines.begin(), lines.end(), has_line) && std::none_of(lines.begin(), lines.end(), has_measure)) {
        faults.push_back(exception.glob + " in " + measure);
      }
    }
  }
  judgement->check("every exception is a case's" + (faults.empty() ? "" : "; of none: " + join(faults)),
                   faults.empty());
}

void check_coverage(const std::vector<ReferenceCurve>& references, const std::vector<ReferenceException>& exceptions,
                    const std::vector<HeldKey>& held, uint32_t seed, Judgement* judgement) {
  const auto has_case = [&](const ReferenceCurve& reference) {
    return std::any_of(held.begin(), held.end(),
                       [&](const HeldKey& key) { return key.key == reference.key && key.seed == reference.seed; });
  };
  const auto is_not_run = [](const ReferenceException& exception) {
    return exception.kind == ReferenceException::Kind::kNotRun;
  };
  std::vector<std::string> faults;
  size_t held_count = 0;
  size_t excepted_count = 0;
  for (const ReferenceCurve& reference : references) {
    const bool is_excepted = std::any_of(exceptions.begin(), exceptions.end(), [&](const ReferenceException& e) {
      return is_not_run(e) && matches(e, reference.key, reference.seed);
    });
    const bool is_held = has_case(reference);
    if (is_held && is_excepted) {
      faults.push_back(reference.key + " is excepted, but run");
    } else if (reference.seed == seed && !is_held && !is_excepted) {
      faults.push_back(reference.key + " in " + reference.measure + " has no case");
    }
    held_count += is_held ? 1 : 0;
    excepted_count += reference.seed == seed && is_excepted ? 1 : 0;
  }
  for (const ReferenceException& exception : exceptions) {
    const bool is_used = std::any_of(references.begin(), references.end(), [&](const ReferenceCurve& reference) {
      return matches(exception, reference.key, reference.seed);
    });
    if (is_not_run(exception) && !is_used) {
      faults.push_back("no line has the key of the exception " + exception.glob);
    }
    if (is_not_run(exception) && is_used && excepted_count > 0) {
      judgement->note("not run    " + exception.glob + ": " + exception.reason);
    }
  }
  judgement->check("every reference line of this seed has a case: " + std::to_string(held_count) + " are held, " +
                       std::to_string(excepted_count) + " excepted by name" +
                       (faults.empty() ? "" : "; but " + join(faults)),
                   faults.empty());
}

bool may_end(const std::vector<ReferenceException>& exceptions, const std::string& key, uint32_t seed,
             const Curve& curve) {
  const auto is_of_run = [&](const ReferenceException& exception) {
    return exception.kind == ReferenceException::Kind::kEnds && matches(exception, key, seed);
  };
  const bool has_own_seed = std::any_of(exceptions.begin(), exceptions.end(), [&](const ReferenceException& exception) {
    return is_of_run(exception) && exception.seed == seed;
  });
  const auto is_excepted = [&](const ReferenceException& exception) {
    return is_of_run(exception) && (exception.seed == seed || !has_own_seed) &&
           curve.points.back().round >= exception.least_round && curve.fault.find(exception.fault) != std::string::npos;
  };
  return !curve.points.empty() &&
         (curve.is_fault_expected || std::any_of(exceptions.begin(), exceptions.end(), is_excepted));
}

void check_ends(const std::vector<ReferenceException>& exceptions, const Curves& curves, uint32_t seed,
                Judgement* judgement) {
  std::vector<std::string> faults;
  size_t expected_count = 0;
  for (const auto& [key, curve] : curves) {
    const bool is_expected = !curve.fault.empty() && may_end(exceptions, key, seed, curve);
    expected_count += is_expected ? 1 : 0;
    if (!curve.fault.empty() && !is_expected) {
      faults.push_back(key + " at round " + std::to_string(curve.points.empty() ? 0 : curve.points.back().round) +
                       " by " + curve.fault);
    }
  }
  judgement->check("every run comes to its end, or ends as expected: " + std::to_string(expected_count) + " of " +
                       std::to_string(curves.size()) + " end early, where and how it is expected" +
                       (faults.empty() ? "" : "; unexpected: " + join(faults)),
                   faults.empty());
}

Tolerance tolerance_of(const ReferenceCurve& reference, const RunParameters& parameters, double optimum) {
  const double first = reference.points.front().value;
  if (reference.points.size() == 1) {  // a figure, not a trajectory
    return {kIsDouble ? 1e-7 : 1e-3};
  }
  const bool is_excess = reference.measure == "excess";
  const double scale = optimum == 0 ? first : std::fabs(optimum);  // a cost whose least value is 0 has no other one
  if (kIsDouble) {
    constexpr double kUnits = 16;  // sums over samples or over their covariance, eigenvalues
    // Estimates divide the rounding of losses by mu: one unit in each loss moves X11's reference itself by 58.
    constexpr double kZerothOrderUnits = 128;
    const bool is_zeroth_order = parameters.local->estimator != EstimatorId::kAnalyticGradient;
    const double rounding =
        (is_zeroth_order ? kZerothOrderUnits : kUnits) * std::numeric_limits<double>::epsilon() * scale;
    return {1e-7, is_excess ? 1e-9 * scale : 1e-6 * first, is_excess ? rounding : 0};
  }
  if (parameters.local->estimator == EstimatorId::kAnalyticGradient) {
    // A reference in single precision has the rounding of its own losses: its excess ends on either side of 0.
    constexpr double kSingleUnits = 4;
    const bool is_single = reference.key.find("/float32/") != std::string::npos;
    const double rounding = is_single && is_excess ? kSingleUnits * std::numeric_limits<float>::epsilon() * scale : 0;
    return {1e-3, is_excess ? 1e-5 * scale : 3e-3 * first, rounding};
  }
  // An estimate has the rounding of losses divided by mu. At 1e-2 runs are up to 2.1e-4 from the reference's in single
  // precision, so that a hundred times as much is rounding at 1e-4.
  // A cost whose least value is 0 and that no run comes near to has no floor of noise: all of it is held (X13). Seeds
  // are 1.5 % apart there, runs of one seed 0.8 % at most.
  if (is_excess && optimum == 0 && reference.points.back().value > 0.1 * first) {
    return {1e-2, 0};
  }
  const double relative = parameters.local->smoothing < kShortSmoothing ? 3e-2 : 1e-2;
  return {relative, 10 * std::fabs(reference.points.back().value), 0, 0, true};
}

Tolerance tolerance_of(const ReferenceCurve& reference, const RunParameters& parameters, double optimum,
                       const std::vector<ReferenceException>& exceptions, const std::string& key, uint32_t seed) {
  Tolerance tolerance = tolerance_of(reference, parameters, optimum);
  tolerance.nudged_max = kIsDouble ? 0 : kFloatNudgedMax;
  for (const ReferenceException& exception : exceptions) {
    if (!matches(exception, key, seed, reference.measure) || reference.points.size() == 1) {
      continue;
    }
    switch (exception.kind) {
      case ReferenceException::Kind::kWanders:
        // In double a test error or an angle is held point by point, whatever its run does.
        tolerance.end_factor = kIsDouble && reference.measure != "grad_norm" ? 0 : kEndFactor;
        break;
      case ReferenceException::Kind::kWithin:
        if (exception.least_round > 0) {
          tolerance.relative_later = exception.within;
          tolerance.later_round = exception.least_round;
        } else {
          tolerance.relative = exception.within;
        }
        break;
      case ReferenceException::Kind::kFloor:
        tolerance.rounding = exception.within;
        break;
      case ReferenceException::Kind::kSensitive:
        tolerance.nudged_max = exception.within > 0 ? exception.within : tolerance.nudged_max;
        break;
      case ReferenceException::Kind::kNotRun:
      case ReferenceException::Kind::kEnds:
        break;
    }
  }
  return tolerance;
}

namespace {

// |a / b| or its inverse, whichever is above 1; infinite where one is 0 or not a number.
double factor_between(double a, double b) {
  const double factor = a > b ? a / b : b / a;
  return factor >= 1 ? factor : std::numeric_limits<double>::infinity();
}

// The least values of the curve and of the reference at the reference's points.
double factor_at_the_end(const ReferenceCurve& reference, const Curve& curve, double floor, uint32_t last_round) {
  double own = std::numeric_limits<double>::infinity();
  double wanted = own;
  for (const ReferenceCurve::Point& point : reference.points) {
    if (point.round <= last_round) {
      own = std::fmin(own, measure_of(curve.at(point.round).measures, reference.measure));
      wanted = std::fmin(wanted, point.value);
    }
  }
  return factor_between(std::fmax(own, floor), std::fmax(wanted, floor));
}

// By how much the farthest of the nudged curves has parted from the curve up to this round.
double parting_of(const Tolerance& tolerance, const Curve& curve, const ReferenceCurve& reference,
                  uint32_t last_round) {
  double parting = 0;
  for (const Curve& nudged : tolerance.nudged) {
    for (const CurvePoint& point : curve.points) {
      if (point.round <= last_round) {
        const double own = measure_of(point.measures, reference.measure);
        parting = std::fmax(parting, std::fabs(measure_of(nudged.at(point.round).measures, reference.measure) - own));
      }
    }
  }
  return parting;
}

}  // namespace

void compare(const ReferenceCurve& reference, const Curve& curve, const Tolerance& tolerance, uint32_t round_count,
             Judgement* judgement) {
  double worst = 0;
  double worst_at_first = 0;
  uint32_t worst_round = 0;
  uint32_t parting_round = UINT32_MAX;  // the first that is not followed
  uint32_t count = 0;
  const uint32_t last_round = tolerance.may_end_early ? std::min(round_count, curve.points.back().round) : round_count;
  bool is_at_end = false;
  for (const ReferenceCurve::Point& point : reference.points) {
    const bool is_above = point.value > tolerance.least;
    is_at_end = is_at_end || (tolerance.ends_at_least && !is_above);
    const bool counts = tolerance.ends_at_least ? !is_at_end || point.round <= kFirstRounds : is_above;
    if (!counts || point.round > last_round) {
      continue;
    }
    ++count;
    const CurvePoint& own = curve.at(point.round);
    const double value = measure_of(own.measures, reference.measure);
    const bool is_there = own.round == point.round;
    const double apart = std::fabs(value - point.value);
    const double parting = kSensitivityFactor * parting_of(tolerance, curve, reference, point.round);
    const double parting_max = tolerance.nudged_max > 0 ? tolerance.nudged_max * std::fabs(point.value) : parting;
    const double allowed = tolerance.rounding + std::fmin(parting, parting_max);
    const double left = apart <= allowed ? 0 : apart - allowed;  // not a number stays one
    const double deviation = is_there ? left / point.value : std::numeric_limits<double>::infinity();
    if (!(deviation <= worst)) {
      worst = deviation;
      worst_round = point.round;
    }
    if (!(deviation <= (point.round < tolerance.later_round ? tolerance.relative : tolerance.relative_later))) {
      parting_round = std::min(parting_round, point.round);
    }
    worst_at_first = point.round <= kFirstRounds ? worst : worst_at_first;
  }
  std::string text = reference.key + " follows the reference in " + reference.measure + ": worst relative deviation " +
                     figure(worst) + " at round " + std::to_string(worst_round) + " over " + std::to_string(count) +
                     " points, at most " + figure(tolerance.relative);
  if (tolerance.later_round != UINT32_MAX) {
    text += ", from round " + std::to_string(tolerance.later_round) + " on " + figure(tolerance.relative_later);
  }
  if (!tolerance.nudged.empty()) {
    text += ", beyond " + figure(kSensitivityFactor) +
            " times what a start one unit in the last place away moves it (" +
            figure(parting_of(tolerance, curve, reference, last_round)) + " by its end" +
            (tolerance.nudged_max > 0 ? ", no more than " + figure(tolerance.nudged_max) + " of the value)" : ")");
  }
  bool holds = count > 0 && parting_round == UINT32_MAX;
  if (!holds && count > 0 && tolerance.end_factor > 0) {
    const double factor = factor_at_the_end(reference, curve, tolerance.least, last_round);
    text += "; parts at round " + std::to_string(parting_round) + " and ends within a factor of " + figure(factor) +
            ", at most " + figure(tolerance.end_factor);
    holds = worst_at_first <= 10 * tolerance.relative && factor <= tolerance.end_factor;
  }
  judgement->check(text, holds);
}

}  // namespace gradstream
