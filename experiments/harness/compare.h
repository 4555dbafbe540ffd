// Holds curves to the references: experiments/reference/<experiment>.txt, figures of independent scripts in numpy
// (experiments/reference/README.md). One trajectory a line: key seed measure count, then count pairs round value. What
// is not as it should be stands there by name, with its reason: lines that are not run, runs that end early, runs that
// rounding decides.
#ifndef GRADSTREAM_EXPERIMENTS_HARNESS_COMPARE_H_
#define GRADSTREAM_EXPERIMENTS_HARNESS_COMPARE_H_

#include <string>
#include <vector>

#include "experiments/harness/experiment.h"

namespace gradstream {

// Which of the two builds this is.
inline constexpr bool kIsDouble = sizeof(Real) == sizeof(double);

struct ReferenceCurve {
  std::string key;
  uint32_t seed = 0;
  std::string measure;  // excess, grad_norm, other or refitted: of Measures
  struct Point {
    uint32_t round;
    double value;
  };
  std::vector<Point> points;
};

// GS_ASSERT: a file of the checkout is whole. Empty when the experiment has none.
std::vector<ReferenceCurve> read_references(const std::string& experiment);

// A line of the same file that begins with # and one of these words:
//
//   # not run [in double|float]: GLOB REASON               no case has such a key
//   # ends [in ...] [seed S] [above S] round N by WORD: GLOB REASON
//                                                          not before round N, by a fault that contains WORD; of seeds
//                                                          above S only; a line of a seed replaces those without one
//   # sensitive [in ...] [within R] OF: GLOB REASON        rounding decides where the run comes to, within R of a value
//                                                          (in float without R: kFloatNudgedMax, as every run)
//   # wanders [in ...] OF: GLOB REASON                     it may part from it after the first rounds (end_factor)
//   # within R [from N] [in ...] [seed S] OF: GLOB REASON  the relative tolerance is R, from round N on
//   # floor F [in ...] OF: GLOB REASON                     rounding leaves the measure no better than F: so much more
//
// GLOB is of the shell (* takes any text) and matches whole keys: of lines for `not run`, of cases for the rest. OF is
// "of MEASURE", once or more: the run's other measures have the tolerance of any run.
struct ReferenceException {
  enum class Kind { kNotRun, kEnds, kSensitive, kWanders, kWithin, kFloor };
  Kind kind = Kind::kNotRun;
  std::string glob;
  std::string reason;
  uint32_t seed = 0;                       // 0: of every seed
  uint32_t seed_above = 0;                 // of seeds above it: those that no reference was made with
  uint32_t least_round = 0;                // kEnds; kWithin: from
  std::string fault;                       // kEnds: the word that the fault contains
  double within = 0;                       // kSensitive: 0, the build's own; kWithin; kFloor, in the measure's units
  std::vector<std::string> measures = {};  // kSensitive, kWanders, kWithin, kFloor
};

// Those of this precision. GS_ASSERT: as read_references(). `text` is a file's; read_exceptions() reads it.
std::vector<ReferenceException> parse_exceptions(const std::string& text);
std::vector<ReferenceException> read_exceptions(const std::string& experiment);
bool matches(const ReferenceException& exception, const std::string& key, uint32_t seed);
// Whether it names the measure too.
bool matches(const ReferenceException& exception, const std::string& key, uint32_t seed, const std::string& measure);

// The keys and seeds of which an experiment has a case.
struct HeldKey {
  std::string key;
  uint32_t seed = 0;
};

// A line that a case is held to.
struct HeldMeasure {
  HeldKey one;  // the case
  std::string measure;
};

// Adds the criterion that every exception but `not run` is one of a case, and, where the case has lines of the seed, of
// a measure that one of them has; names those that are not. Exceptions of other seeds are left out.
void check_marks(const std::vector<ReferenceException>& exceptions, const std::vector<HeldKey>& cases,
                 const std::vector<HeldMeasure>& lines, uint32_t seed, Judgement* judgement);

// Adds the criterion that every line of `references` of this seed, or of the seed of a case's own, has a case or is
// excepted; it names a line that is neither, and an exception that excepts nothing, because no line has such a key or
// all of them are run.
void check_coverage(const std::vector<ReferenceCurve>& references, const std::vector<ReferenceException>& exceptions,
                    const std::vector<HeldKey>& held, uint32_t seed, Judgement* judgement);

// Whether a curve that ended by a fault was expected to: by its case's data, or by an exception and not before it.
bool may_end(const std::vector<ReferenceException>& exceptions, const std::string& key, uint32_t seed,
             const Curve& curve);

// Adds the criterion that every curve came to its end or may_end(); names those that did not.
void check_ends(const std::vector<ReferenceException>& exceptions, const Curves& curves, uint32_t seed,
                Judgement* judgement);

// How near a curve must be, and down to which value it is compared.
struct Tolerance {
  double relative = 0;
  double least = 0;
  // Of an excess: F(x) - F* is a difference of two rounded numbers, whatever computed it. In double the relative
  // tolerance is half a unit in the last place of F* at the least value; in float it is the reference's own rounding
  // where that is in single precision. Of a gradient norm: a `floor` of the reference's file.
  double rounding = 0;
  // Above 0: a curve may part from the reference after the first rounds, if its least value is so near to the
  // reference's. Only of runs that the reference's file names (`wanders`), in double only of their gradient norms. The
  // long steps of 002 wander over the manifold, and double every rounding from round to round. Any other curve is
  // compared at every point, also one that does not fall.
  double end_factor = 0;
  // The least is a floor of noise, where curves bounce: the comparison ends for good at the first value that is not
  // above it. The first rounds are compared in any case, so that a run that never leaves its noise is checked too.
  bool ends_at_least = false;
  // The curve may end early (may_end()): what comes after its end is not compared.
  bool may_end_early = false;
  // Curves of the same case from starts one unit in the last place away. A point may deviate by kSensitivityFactor
  // times as much as the most by which one of them had parted from the curve until then: rounding decides it as much
  // as the algorithm. Empty: none.
  std::vector<Curve> nudged = {};
  // The most that nudges may add, as a part of the reference's value; 0: no bound.
  double nudged_max = 0;
  // Of later rounds, where rounding has had time to grow (`within R from N`). UINT32_MAX: none has another.
  double relative_later = 0;
  uint32_t later_round = UINT32_MAX;
};
// In float no curve is given more than this: one that its rounding leads farther away replays nothing.
inline constexpr double kFloatNudgedMax = 5e-2;
// The reference adds in another order at every step, a nudge moves one entry once, and three of them are a small
// sample.
inline constexpr double kSensitivityFactor = 10;

// Of this build, for the measure of a case: the double build replays to rounding; the float build follows first-order
// runs until the rounding of the model shows, and zeroth-order ones while the gap is above ten times the run's floor.
Tolerance tolerance_of(const ReferenceCurve& reference, const RunParameters& parameters, double optimum);

// The same with what the exceptions of the file give to the run of this key and seed (wanders, within, floor,
// sensitive).
Tolerance tolerance_of(const ReferenceCurve& reference, const RunParameters& parameters, double optimum,
                       const std::vector<ReferenceException>& exceptions, const std::string& key, uint32_t seed);

// Adds one criterion: the worst relative deviation over the points that are compared, up to round_count, and where.
void compare(const ReferenceCurve& reference, const Curve& curve, const Tolerance& tolerance, uint32_t round_count,
             Judgement* judgement);

}  // namespace gradstream

#endif  // GRADSTREAM_EXPERIMENTS_HARNESS_COMPARE_H_
