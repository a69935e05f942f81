// The build gives the module's bytes packed, as base64 text.
declare module 'whatfits.wasm' {
  const base64: string;
  export default base64;
}
