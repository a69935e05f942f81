// The second script: reads PyTorch's memory snapshots and shows them beside the prediction. what-fits.js loads it when there is a
// file to read; a page without snapshots never does.
import wasm from 'whatfits-snapshot.wasm';
import { openRecording } from './core/recording.js';
import { define } from './parts/part.js';
import { RecordingView } from './parts/recording.js';
import { READER } from './data/snapshot-file.js';

RecordingView.open = (options) => openRecording(options, wasm);
define(READER, RecordingView);
