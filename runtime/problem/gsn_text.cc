#include "runtime/base/no_contraction.h"

#include "runtime/problem/gsn_text.h"

#include <iterator>

namespace gradstream {
namespace {

// %v: the fault's value, %l: its limit, %m: its least, %a: the array's name; %x and %y: value and limit in hexadecimal.
constexpr const char* kSentences[] = {
    "",
    "there are %v bytes, and what it promises takes %l; copy the file again",
    "this is no network: the first bytes are not GSN1; give a file as docs/network.md describes it",
    "version %v of the format is not known, version %l is; write the file for that version, or update this program",
    "the file lies at an address that is no multiple of %l; place it at one",
    "the size is %v bytes, and %l are there; it must be a multiple of 4 and no more than is there: copy the file again",
    "the checksum is %x, and the bytes have %y; copy the file again, or write the checksum last",
    "the byte is %v, and must be 0; write 0, or read the file with the program that it is for",
    "there are %v layers, and room for %l; join or leave out layers",
    "the field is %v, and this layer has no use for it; write 0",
    "the %a have no bytes but the offset %v; write 0",
    "the %a begin at byte %v, which is no multiple of %l; move them",
    ("the %a begin at byte %v, inside of what ends at byte %l; write arrays in the order of the layers, each behind "
     "the last one"),
    "the %a end at byte %v, and the file at byte %l; write all of them, and their size",
    "the %a have %v bytes, and the layer takes %l; write that many, or mend the layer's shape",
};
static_assert(std::size(kSentences) == static_cast<size_t>(GsnFaultCode::kNetwork));

// Of NetworkFaultCode.
constexpr const char* kNetworkSentences[] = {
    "",
    "there are %v layers, and 1 to %l are taken; join or leave out layers",
    "the loss is %v; known are 1 (softmax), 2 (squared error) and 3 (logistic)",
    "the last layer gives %v scores, and softmax takes %l at least; add a score, or take the logistic loss",
    ("scale or offset of the input is not finite, or the scale is 0: bits of the floats %x and %y; for inputs as they "
     "are write 1 and 0"),
    "the kind is %v; known are 1 to 9",
    "the activation is %v; known are 0 (none), 1 (relu) and 2 (relu6), and relu, relu6 and flatten take none",
    ("the form of the weights is %v; known are 0 (float), 1 (int8) and 2 (int8 with a scale a channel), and trained "
     "layers and layers without weights take 0"),
    "trained is %v; known are 0 (frozen), 1 (dense, for layers with weights) and 2 (factored, for dense layers alone)",
    "a volume has %v values, and 1 to %l are taken; mend height, width or channels",
    ("the input has %v values in this shape, and what comes before gives %l; give both the same height, width and "
     "channels"),
    "the output has %v values in this shape, and the layer makes %l; mend the output's height, width and channels",
    "the window is wrong at %v; kernel and stride are 1 at least, a border is less than its kernel",
    "the output has %v rows, and windows make %m to %l; mend output, stride or border",
    "the output has %v columns, and windows make %m to %l; mend output, stride or border",
    ("the output has %v channels, and the input %l; pools take the same number, a depthwise convolution a multiple; "
     "mend one of the two"),
    "the layer has %v weights, and %l are the most; make it smaller",
    "a frozen layer has no weights; write %v numbers, or train it",
    "int8 weights have no scales; write %v numbers above 0",
    "number %v of weights, biases and scales, from 0, is not finite, or a scale that is not above 0; mend the number",
    "the rank is %v, and 1 to %l are taken; write one of these",
    "add_from is %v; name a layer below %l, or 255 for the input",
    "the layer that is added has %v values in its shape, and this one takes %l; both take the same shape",
    "the windows of an output row have %v numbers, and %l are the most; take a smaller kernel or a larger stride",
};
static_assert(std::size(kNetworkSentences) == static_cast<size_t>(NetworkFaultCode::kWindowWork) + 1);

constexpr const char* kArrayNames[] = {"weights", "biases", "scales"};
static_assert(std::size(kArrayNames) == kGsnArrayCount);

constexpr const char* kKindNames[] = {"unknown",      "dense", "conv2d", "depthwise_conv2d", "max_pool",
                                      "average_pool", "relu",  "relu6",  "flatten",          "add"};
constexpr const char* kActivationNames[] = {"none", "relu", "relu6"};
constexpr const char* kLossNames[] = {"unknown", "softmax", "squared_error", "logistic"};

template <size_t N, typename Enum>
const char* name_in(const char* const (&names)[N], Enum value) {
  return static_cast<size_t>(value) < N ? names[static_cast<size_t>(value)] : "unknown";
}

}  // namespace

GsnFaultText::GsnFaultText(const GsnFault& fault) {
  if (fault.code == GsnFaultCode::kNone) {
    return;
  }
  if (fault.is_of_layer) {
    add("layer ");
    add_number(fault.layer);
    add(", ");
  }
  add("byte ");
  add_number(fault.offset);
  add(": ");
  add_sentence(fault.code == GsnFaultCode::kNetwork ? kNetworkSentences[static_cast<size_t>(fault.network)]
                                                    : kSentences[static_cast<size_t>(fault.code)],
               fault);
}

void GsnFaultText::add(char character) {
  if (size_ < kSizeMax) {
    text_[size_++] = character;
  }
}

void GsnFaultText::add(const char* text) {
  for (; *text != '\0'; ++text) {
    add(*text);
  }
}

void GsnFaultText::add_number(uint32_t value) {
  char digits[10];
  size_t count = 0;
  do {
    digits[count++] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  while (count > 0) {
    add(digits[--count]);
  }
}

void GsnFaultText::add_hex(uint32_t value) {
  for (int shift = 28; shift >= 0; shift -= 4) {
    add("0123456789abcdef"[value >> shift & 15]);
  }
}

void GsnFaultText::add_sentence(const char* form, const GsnFault& fault) {
  for (; *form != '\0'; ++form) {
    if (*form != '%') {
      add(*form);
      continue;
    }
    switch (*++form) {
      case 'v':
        add_number(fault.value);
        break;
      case 'l':
        add_number(fault.limit);
        break;
      case 'm':
        add_number(fault.least);
        break;
      case 'x':
        add_hex(fault.value);
        break;
      case 'y':
        add_hex(fault.limit);
        break;
      default:
        add(name_in(kArrayNames, fault.array));
    }
  }
}

const char* layer_kind_name(LayerKind kind) { return name_in(kKindNames, kind); }
const char* activation_name(Activation activation) { return name_in(kActivationNames, activation); }
const char* network_loss_name(NetworkLoss loss) { return name_in(kLossNames, loss); }

}  // namespace gradstream
