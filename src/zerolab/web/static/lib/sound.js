// Move sounds, made by the browser from decaying tones: no files are loaded.

const SECONDS = 0.12; // length of a tone
const LOUDEST = 0.25;
const PITCHES = { move: [520], won: [392, 523, 659], drawn: [440, 440], lost: [392, 330, 262] };

let context = null;

/** Play the sound for a move or for the end of a game: "move", "won", "drawn" or "lost". */
export function playSound(name) {
  context ??= new AudioContext();
  if (context.state === "suspended") context.resume(); // browsers wait for the first click
  PITCHES[name].forEach((pitch, number) => tone(pitch, context.currentTime + number * SECONDS));
}

/** Play a tone of `pitch` hertz that begins at `start`, in the context's seconds, and fades away. */
function tone(pitch, start) {
  const oscillator = new OscillatorNode(context, { type: "triangle", frequency: pitch });
  const volume = new GainNode(context, { gain: 0 });
  volume.gain.setValueAtTime(LOUDEST, start);
  volume.gain.exponentialRampToValueAtTime(0.001, start + SECONDS);
  oscillator.connect(volume).connect(context.destination);
  oscillator.start(start);
  oscillator.stop(start + SECONDS);
}
