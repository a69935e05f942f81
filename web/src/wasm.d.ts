// The build replaces these imports by the modules, packed, as base64.
declare module 'whatfits.wasm' {
  const base64: string;
  export default base64;
}
declare module 'whatfits-snapshot.wasm' {
  const base64: string;
  export default base64;
}
