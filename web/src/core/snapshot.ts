// What programs import as `what-fits/snapshot`: measured runs, read and laid over predictions.
export { CoreError, RequestError, type Reason } from './errors.js';
export { openRecording, Recording, type RecordingOptions } from './recording.js';
export type * from './types.js';
