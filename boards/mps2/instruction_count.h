// How many instructions the client took, in the emulator's image of the MPS2 boards. Polls count that did something:
// waiting for the link does not, nor does a look in vain for a whole record, of which there are as many as the host
// makes. Under -icount shift=0; ./run bench device reads them.
#ifndef GRADSTREAM_BOARDS_MPS2_INSTRUCTION_COUNT_H_
#define GRADSTREAM_BOARDS_MPS2_INSTRUCTION_COUNT_H_

namespace gradstream {

// With the word count-instructions, each line on the console is followed by `event=awake ticks=N`: so far, at 40 ns, 40
// instructions each.
void start_instruction_count();
void stop_counting();          // the processor is about to sleep
void begin_poll();             // it is awake; the poll before this one, if it did not end in a sleep, is over
void log_instruction_count();  // a line has ended

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_MPS2_INSTRUCTION_COUNT_H_
