-- {{< what-fits model="gpt2-from-scratch" batch="8" show="verdict,bar" text="It needs 16.65 GiB." picture="peak.png" >}}
-- In HTML: the element, with text and picture as what a reader without scripts sees. Elsewhere: text and picture.
-- what-fits.js lies beside this file; it is one classic script with the WebAssembly inside, so nothing else has to be found.

local own = { text = true, picture = true, alt = true }

local function escape(text)
  return (text:gsub("[&<>\"]", { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }))
end

local function fallback(options)
  local blocks = pandoc.List()
  if options.text then blocks:extend(pandoc.read(options.text, "markdown").blocks) end
  if options.picture then
    local alt = options.alt or pandoc.utils.stringify(blocks)
    blocks:insert(pandoc.Para({ pandoc.Image(alt, options.picture) }))
  end
  return blocks
end

local function what_fits(_, kwargs)
  local options, names = {}, {}
  for name, value in pairs(kwargs) do
    local text = pandoc.utils.stringify(value)
    if text ~= "" then
      options[name] = text
      if not own[name] then table.insert(names, name) end
    end
  end
  if not quarto.doc.is_format("html:js") then return fallback(options) end

  quarto.doc.add_html_dependency({
    name = "what-fits",
    version = "0.1.0",
    scripts = { { path = "what-fits.js", attribs = { defer = "true" } } },
  })
  table.sort(names)
  local tag = "<what-fits"
  for _, name in ipairs(names) do
    -- A name that is no attribute name would end the tag.
    if name:match("^[%w%.%-]+$") then tag = tag .. " " .. name .. '="' .. escape(options[name]) .. '"' end
  end
  -- Raw blocks around real ones: the fallback stays what it is in every HTML writer, and Quarto finds the picture's file.
  local blocks = pandoc.List({ pandoc.RawBlock("html", tag .. ">") })
  blocks:extend(fallback(options))
  blocks:insert(pandoc.RawBlock("html", "</what-fits>"))
  return blocks
end

return { ["what-fits"] = what_fits }
